package claim_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// last returns the last event of a kind that the daemon recorded.
func (w *world) last(d *sim.Daemon, kind claim.Kind) claim.Fact {
	w.Helper()
	var out claim.Fact
	for _, e := range d.Ledger.Events() {
		if e.Kind == kind {
			out = e
		}
	}
	if out.ID == "" {
		w.Errorf("no event says that anything was %s: %v", kind, kinds(d))
	}
	return out
}

// Dragging a held card to OPEN hands the task out at once, to whoever comes.
func TestHeldCardSetToOpen(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		c := w.claim(d, "Sandman")
		time.Sleep(time.Minute)
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
		w.deny(other, "Oracle", claim.CodeHeld) // it is the holder's to hand it out
		w.sync(sim.SyncInterval, d)
		w.shows(task.Open, "", "")
		if got := w.record(d, c.ID); got.Ending != claim.EndLost || !strings.Contains(got.Detail, "OPEN by a person") {
			t.Errorf("the claim ended as %s, %q; want it lost, and to know how", got.Ending, got.Detail)
		}
		if e := w.last(d, claim.KindCleared); e.Claim != c.ID || e.Agent != "Sandman" || !strings.Contains(e.Detail, "set to OPEN") {
			t.Errorf("event %+v, want it to say what was done", e)
		}
		w.claim(other, "Oracle")
	})
}

// It does not matter who finds out: the guard, a renewal, or the end of the work.
func TestWhoFindsTheCardOpen(t *testing.T) {
	for name, find := range map[string]func(w *world, d *sim.Daemon, c claim.Hold) error{
		"guard": func(w *world, d *sim.Daemon, c claim.Hold) error { return d.Guard(w.ctx, c.ID, nil) },
		"renewal": func(w *world, d *sim.Daemon, c claim.Hold) error {
			_, err := d.Renew(w.ctx, c.ID)
			return err
		},
		"completion": func(w *world, d *sim.Daemon, c claim.Hold) error {
			_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				time.Sleep(20 * time.Minute)
				w.Edit(page, func(t *task.Task) { t.Status = task.Open })
				w.lost(find(w, d, c))
				w.shows(task.Open, "", "")
				w.none(d)
			})
		})
	}
}

// A person who puts a name over the agent's has the task: nobody sweeps it or takes it
// when the agent's lease would have ended.
func TestHeldCardUnderAnotherName(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.claim(d, "Sandman")
		time.Sleep(time.Minute)
		w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
		w.sync(sim.SyncInterval, d, other)
		if got := w.Page(page); got.ClaimedBy != "Maria" || !got.ClaimedAt.IsZero() || got.Token != "" {
			t.Errorf("the page shows %+v, want it Maria's without a time limit", got)
		}
		if e := w.last(d, claim.KindCleared); !strings.Contains(e.Detail, "Maria") {
			t.Errorf("event %+v, want it to name Maria", e)
		}
		w.sync(time.Hour, d, other)
		for _, daemon := range []*sim.Daemon{d, other} {
			if _, swept, err := daemon.Sweep(w.ctx, page); swept || err != nil {
				t.Errorf("swept = %v, %v", swept, err)
			}
			w.deny(daemon, "Oracle", claim.CodeReserved)
		}
	})
}

// A name is often put in the place of another in two steps.
func TestHeldCardUnderAnotherNameInTwoSteps(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		w.claim(d, "Sandman")
		w.Edit(page, func(t *task.Task) { t.ClaimedBy = "" })
		w.sync(sim.SyncInterval, d)
		w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
		w.sync(sim.SyncInterval, d)
		if got := w.Page(page); got.ClaimedBy != "Maria" || !got.ClaimedAt.IsZero() || got.Token != "" {
			t.Errorf("the page shows %+v, want it Maria's without a time limit", got)
		}
	})
}

// Where the daemon that held the task does not come back in time, the timeout decides.
func TestHeldCardUnderAnotherNameAndItsDaemonGone(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		c := w.claim(d, "Sandman")
		d.Kill()
		w.Edit(page, func(t *task.Task) { t.ClaimedBy = "Maria" })
		time.Sleep(time.Until(c.StaleAt.Add(-time.Second)))
		w.deny(other, "Oracle", claim.CodeHeld)
		next, err := d.Successor(w.ctx)
		w.ok(err)
		defer next.Close()
		want := w.Page(page)
		_ = next.Sync(w.ctx) // the lease is over for it, and somebody may be about to take the task
		if diff := cmp.Diff(want, w.Page(page)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Second)
		w.claim(other, "Oracle")
	})
}

// endings are the ways in which a claim ends, and the page no longer shows it.
var endings = map[string]func(w *world, d *sim.Daemon, c claim.Hold){
	"released":  func(w *world, d *sim.Daemon, c claim.Hold) { w.finish(d, c, claim.EndReleased) },
	"completed": func(w *world, d *sim.Daemon, c claim.Hold) { w.finish(d, c, claim.EndCompleted) },
	"blocked":   func(w *world, d *sim.Daemon, c claim.Hold) { w.finish(d, c, claim.EndBlocked) },
	"cancelled by a person": func(w *world, d *sim.Daemon, _ claim.Hold) {
		w.Edit(page, func(t *task.Task) { t.Status = task.Cancelled })
	},
	"cleared by a person": func(w *world, d *sim.Daemon, _ claim.Hold) {
		w.Edit(page, func(t *task.Task) { unclaim(t); t.Status = task.Open })
	},
	"in the trash": func(w *world, d *sim.Daemon, _ claim.Hold) {
		w.Edit(page, func(t *task.Task) { t.Trashed = true })
	},
	"without a known status": func(w *world, d *sim.Daemon, _ claim.Hold) {
		w.Edit(page, func(t *task.Task) { t.Status = task.Unknown })
	},
}

func (w *world) finish(d *sim.Daemon, c claim.Hold, as claim.Ending) {
	w.Helper()
	got, err := d.Finish(w.ctx, c.ID, claim.Finish{As: as})
	if err != nil || got.State != claim.Ended {
		w.Fatalf("the claim is %s, %v; want it ended", got.State, err)
	}
}

// graceful is how long it takes until a claim that is over is off its page again.
const graceful = 2 * time.Minute

// A card that shows a claim which is over, as after an undo, is reopened by the daemon
// that had it, also after a restart; to everybody else it would be held.
func TestCardShowsAClaimThatIsOver(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d, other := w.daemon("a"), w.daemon("b")
				c := w.claim(d, "Sandman")
				before := w.Page(page)
				time.Sleep(time.Minute)
				end(w, d, c)
				w.sync(time.Minute, d, other)
				w.ok(d.Restart(w.ctx))
				w.Edit(page, func(t *task.Task) { *t = before })
				w.deny(other, "Oracle", claim.CodeHeld)
				w.sync(graceful, d, other)
				w.shows(task.Open, "", "")
				if e := w.last(d, claim.KindCleared); e.Claim != c.ID || e.Agent != "Sandman" || e.Detail == "" {
					t.Errorf("event %+v, want it to say whose claim was taken off", e)
				}
				w.none(d)
				w.claim(other, "Oracle")
			})
		})
	}
}

// A completed card that a person drags back to IN_PROGRESS is nobody's.
func TestCompletedCardSetToInProgress(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		w.finish(d, w.claim(d, "Sandman"), claim.EndCompleted)
		w.Edit(page, func(t *task.Task) { t.Status = task.InProgress })
		w.sync(graceful, d)
		w.shows(task.Open, "", "")
	})
}

// A claim that is over may show over one that lives, because somebody restored an old
// version of the page: then the living one comes back.
func TestClaimThatIsOverOverAnother(t *testing.T) {
	for _, same := range []bool{true, false} {
		inWorld(t, openTask(), func(w *world) {
			d := w.daemon("a")
			other := d
			if !same {
				other = w.daemon("b")
			}
			c := w.claim(d, "Sandman")
			before := w.Page(page)
			w.finish(d, c, claim.EndReleased)
			live := w.claim(other, "Oracle")
			w.sync(time.Minute, d, other)
			w.Edit(page, func(t *task.Task) { *t = before })
			w.sync(3*time.Minute, d, other)
			w.shows(task.InProgress, "Oracle", string(live.ID))
			w.finish(other, live, claim.EndCompleted)
		})
	}
}

// What a person does to the card meanwhile stands.
func TestPersonEditsWhileACardIsPutRight(t *testing.T) {
	tests := []struct {
		name string
		edit func(*task.Task)
		want func(*task.Task)
	}{
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, unclaim},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, unclaim},
		{"opened", func(t *task.Task) { t.Status = task.Open }, unclaim},
		{"taken", func(t *task.Task) { t.ClaimedBy = "Maria" }, func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"reserved", func(t *task.Task) { t.ClaimedBy, t.ClaimedAt, t.Token = "Maria", time.Time{}, "" }, func(*task.Task) {}},
		{"trashed", func(t *task.Task) { t.Trashed = true }, func(*task.Task) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				before := w.Page(page)
				w.finish(d, c, claim.EndReleased)
				w.Edit(page, func(t *task.Task) { *t = before })
				w.sync(time.Second, d)
				if got := w.onlyMark(d).State; got != claim.Voided {
					t.Fatalf("the mark is %s, want it on the page", got)
				}
				w.Edit(page, tt.edit)
				want := w.Page(page)
				tt.want(&want)
				w.sync(10*time.Minute, d)
				if diff := cmp.Diff(want, w.Page(page)); diff != "" {
					t.Errorf("page (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Whatever becomes of the writes, a card is put right, and that is logged once.
func TestFateOfACardThatIsPutRight(t *testing.T) {
	for _, step := range []sim.Kind{sim.Voidings, sim.Openings} {
		for name, f := range map[string]sim.Fault{
			"answer dropped": sim.AnswerDropped, "request dropped": sim.RequestDropped, "turned away": sim.TurnedAway(429, time.Second),
			"late": sim.Late(8 * time.Second), "not applied": sim.NotApplied, "refused": sim.WriteRefused,
		} {
			t.Run(string(step)+", "+name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					spare := []sim.Fault{f}
					if step == sim.Openings {
						spare = []sim.Fault{nil, f} // the release
					}
					d := w.daemon("a", sim.InTurn(step, spare...))
					c := w.claim(d, "Sandman")
					before := w.Page(page)
					w.finish(d, c, claim.EndReleased)
					w.Edit(page, func(t *task.Task) { *t = before })
					w.sync(5*time.Minute, d)
					w.shows(task.Open, "", "")
					want := []claim.Kind{claim.KindGranted, claim.KindReleased, claim.KindCleared}
					if diff := cmp.Diff(want, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					time.Sleep(24 * time.Hour)
					w.sync(time.Minute, d)
					w.none(d)
				})
			})
		}
	}
}

// A duplicated card, or one made from a template, is a task of its own. Its copy of a claim
// is nobody's.
func TestDuplicatedCard(t *testing.T) {
	for name, status := range map[string]task.Status{"in progress": task.InProgress, "open": task.Open} {
		for _, over := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d, other := w.daemon("a"), w.daemon("b")
					c := w.claim(d, "Sandman")
					original := w.Page(page)
					duplicate := original
					duplicate.ID, duplicate.Status = otherPage, status
					if over {
						w.finish(d, c, claim.EndCompleted)
						original = w.Page(page)
					}
					w.Add(duplicate)
					w.sync(sim.SyncInterval, d, other)
					if got := w.Page(otherPage); got.Status != task.Open || got.ClaimedBy != "" || got.Token != "" || !got.ClaimedAt.IsZero() {
						t.Errorf("the duplicate shows %+v, want it for everybody", got)
					}
					if diff := cmp.Diff(original, w.Page(page)); diff != "" {
						t.Errorf("the original (-want +got):\n%s", diff)
					}
					if e := w.last(d, claim.KindCleared); e.Claim != "" || e.Agent != "" || e.Task != otherPage {
						t.Errorf("event %+v, want nobody to be told", e)
					}
					if _, err := other.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: task.Task{ID: otherPage}}); err != nil {
						t.Errorf("the duplicate cannot be claimed: %v", err)
					}
					if over {
						return
					}
					w.ok(d.Guard(w.ctx, c.ID, nil))
				})
			})
		}
	}
}

// Who duplicates a card and puts a name on it has the copy.
func TestDuplicatedCardUnderAnotherName(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		w.claim(d, "Sandman")
		duplicate := w.Page(page)
		duplicate.ID, duplicate.ClaimedBy, duplicate.Status = otherPage, "Maria", task.Open
		w.Add(duplicate)
		w.sync(sim.SyncInterval, d)
		if got := w.Page(otherPage); got.ClaimedBy != "Maria" || got.Token != "" || !got.ClaimedAt.IsZero() {
			t.Errorf("the duplicate shows %+v, want it Maria's", got)
		}
	})
}

// What is found on a card whose lease is over is left to be overridden or swept: somebody
// may be about to.
func TestCardShowsAClaimWhoseLeaseIsOver(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		before := w.Page(page)
		w.finish(d, c, claim.EndReleased)
		time.Sleep(31 * time.Minute)
		w.Edit(page, func(t *task.Task) { *t = before })
		sent := len(d.Store.Calls())
		w.ok(d.Sync(w.ctx))
		for _, call := range d.Store.Calls()[sent:] {
			if call.Write != nil {
				t.Errorf("written: %+v", call.Write)
			}
		}
	})
}

// A card that is as it should be costs nothing.
func TestCardsThatAreAsTheyShouldBe(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.claim(other, "Oracle") // unknown to the first
		sent := len(d.Store.Calls())
		w.sync(5*time.Minute, d)
		if n := len(d.Store.Calls()) - sent; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A mark whose date a person cleared on a card that is OPEN is an assignment, which may be
// claimed at any moment: nothing is written to it.
func TestMarkBecomesAnAssignment(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if got := w.onlyMark(d).State; got != claim.Voided {
			t.Fatalf("the mark is %s, want it on the page", got)
		}
		w.Edit(page, func(t *task.Task) { t.Status, t.ClaimedAt = task.Open, time.Time{} })
		want := w.Page(page)
		w.sync(graceful, d)
		if diff := cmp.Diff(want, w.Page(page)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
		w.none(d)
	})
}

// Who puts another name on a held card and takes the date off as well has assigned it, also
// where the claim was being withdrawn.
func TestHeldCardIsAssignedToAnother(t *testing.T) {
	for name, slow := range map[string]bool{"held": false, "withdrawn": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				other := w.daemon("b")
				d := w.daemon("a", sim.InTurn(sim.Claims, map[bool]sim.Fault{true: sim.Slow(0, 5*time.Second)}[slow]))
				if slow {
					w.deny(d, "Sandman", claim.CodeNotionUnavailable)
				} else {
					w.claim(d, "Sandman")
				}
				w.Edit(page, func(t *task.Task) { t.ClaimedBy, t.ClaimedAt = "Oracle", time.Time{} })
				w.sync(graceful, d, other)
				w.shows(task.InProgress, "Oracle", "")
				w.none(d)
				w.deny(other, "Sandman", claim.CodeReserved)
				w.claim(other, "Oracle")
			})
		})
	}
}

// A card that shows a claim which is over, and whose lease is, costs nothing, however long it
// stays like that.
func TestCardWhoseLeaseIsOverCostsNothing(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		before := w.Page(page)
		w.finish(d, c, claim.EndReleased)
		time.Sleep(time.Hour)
		w.Edit(page, func(t *task.Task) { *t = before; t.Status = task.Open })
		w.sync(sim.SyncInterval, d)
		sent := len(d.Store.Calls())
		w.sync(10*time.Minute, d)
		if n := len(d.Store.Calls()) - sent; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A card that was completed and is opened again under another name is that name's, to every
// daemon: the date on it is that of the claim that is done.
func TestCompletedCardUnderAnotherName(t *testing.T) {
	for name, status := range map[string]task.Status{"open": task.Open, "in progress": task.InProgress} {
		t.Run(name, func(t *testing.T) {
			for _, later := range []time.Duration{time.Minute, 2 * time.Hour} {
				inWorld(t, openTask(), func(w *world) {
					d, other := w.daemon("a"), w.daemon("b")
					w.finish(d, w.claim(d, "Sandman"), claim.EndCompleted)
					time.Sleep(later)
					w.Edit(page, func(t *task.Task) { t.Status, t.ClaimedBy = status, "Maria" })
					want := w.Page(page)
					w.sync(2*time.Hour, d, other)
					for _, daemon := range []*sim.Daemon{d, other} {
						if denied := w.deny(daemon, "Oracle", claim.CodeReserved); denied.Holder != "Maria" {
							t.Errorf("it is reserved for %q, want Maria", denied.Holder)
						}
						if _, swept, err := daemon.Sweep(w.ctx, page); swept || err != nil {
							t.Errorf("swept: %v, %v", swept, err)
						}
					}
					if diff := cmp.Diff(want, w.Page(page)); diff != "" {
						t.Errorf("page (-want +got):\n%s", diff)
					}
					w.claim(other, "Maria")
				})
			}
		})
	}
}

// Under the name of who completed it, a card that is opened again is everybody's.
func TestCompletedCardUnderTheSameName(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.finish(d, w.claim(d, "Sandman Löwe"), claim.EndCompleted)
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
		w.claim(other, "Oracle")
	})
}
