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

// named puts another name on a card.
func named(name string) func(*task.Task) { return func(t *task.Task) { t.ClaimedBy = name } }

// status drags a card to another column.
func status(s task.Status) func(*task.Task) { return func(t *task.Task) { t.Status = s } }

// isMarias checks that a page is Maria's, without a time limit.
func (w *world) isMarias(id task.ID) {
	w.Helper()
	if got := w.Page(id); got.ClaimedBy != "Maria" || !got.ClaimedAt.IsZero() || got.Token != "" {
		w.Errorf("the page shows %+v, want it Maria's without a time limit", got)
	}
}

// Dragging a held card to OPEN hands the task out at once, to whoever comes, whatever finds out.
func TestHeldCardSetToOpen(t *testing.T) {
	for name, find := range map[string]func(w *world, d *sim.Daemon, c claim.Hold) error{
		"sync":  func(w *world, d *sim.Daemon, _ claim.Hold) error { return d.Sync(w.ctx) },
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
		play(t, name, openTask(), func(w *world) {
			d, other := w.daemon("a"), w.daemon("b")
			c := w.claim(d, "Sandman")
			time.Sleep(20 * time.Minute)
			w.Edit(page, status(task.Open))
			w.deny(other, "Oracle", claim.CodeHeld) // it is the holder's to hand it out
			w.lost(find(w, d, c))
			w.shows(task.Open, "", "")
			w.ended(d, c, claim.EndLost)
			if got := w.record(d, c.ID); !strings.Contains(got.Detail, "OPEN by a person") {
				w.Errorf("the claim ended as %q; want to know how", got.Detail)
			}
			if e := w.last(d, claim.KindCleared); e.Claim != c.ID || e.Agent != "Sandman" || !strings.Contains(e.Detail, "set to OPEN") {
				w.Errorf("event %+v, want it to say what was done", e)
			}
			w.claim(other, "Oracle")
		})
	}
}

// A person who puts a name over the agent's, in one step or in two, has the task: nobody sweeps it or takes it when the
// agent's lease would have ended. Who takes the date off as well has assigned it, also where the claim was being
// withdrawn. Who duplicates a card and puts a name on it has the copy.
func TestHeldCardUnderAnotherName(t *testing.T) {
	for name, edits := range map[string][]func(*task.Task){"in one step": {named("Maria")}, "in two steps": {named(""), named("Maria")}} {
		play(t, name, openTask(), func(w *world) {
			d, other := w.daemon("a"), w.daemon("b")
			w.claim(d, "Sandman")
			time.Sleep(time.Minute)
			for _, edit := range edits {
				w.Edit(page, edit)
				w.sync(sim.SyncInterval, d, other)
			}
			w.isMarias(page)
			if e := w.last(d, claim.KindCleared); !strings.Contains(e.Detail, "Maria") {
				w.Errorf("event %+v, want it to name Maria", e)
			}
			w.sync(time.Hour, d, other)
			for _, daemon := range []*sim.Daemon{d, other} {
				w.sweeps(daemon, false)
				w.deny(daemon, "Oracle", claim.CodeReserved)
			}
		})
	}
	for name, slow := range map[string]sim.Fault{"and no date": nil, "and no date, while it is withdrawn": sim.Slow(0, 5*time.Second)} {
		play(t, name, openTask(), func(w *world) {
			d, other := w.daemon("a", sim.InTurn(sim.Claims, slow)), w.daemon("b")
			if _, err := d.Claim(w.ctx, request("Sandman")); (err != nil) != (slow != nil) {
				w.Fatal(err)
			}
			w.Edit(page, func(t *task.Task) { t.ClaimedBy, t.ClaimedAt = "Oracle", time.Time{} })
			w.sync(graceful, d, other)
			w.shows(task.InProgress, "Oracle", "")
			w.none(d)
			w.deny(other, "Sandman", claim.CodeReserved)
			w.claim(other, "Oracle")
		})
	}
	play(t, "on a duplicate", openTask(), func(w *world) {
		d := w.daemon("a")
		w.claim(d, "Sandman")
		duplicate := w.Page(page)
		duplicate.ID, duplicate.ClaimedBy, duplicate.Status = otherPage, "Maria", task.Open
		w.Add(duplicate)
		w.sync(sim.SyncInterval, d)
		w.isMarias(otherPage)
	})
	// Where the daemon that held the task does not come back in time, the timeout decides.
	play(t, "and its daemon is gone", openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		c := w.claim(d, "Sandman")
		d.Kill()
		w.Edit(page, named("Maria"))
		time.Sleep(time.Until(c.StaleAt.Add(-time.Second)))
		w.deny(other, "Oracle", claim.CodeHeld)
		next, err := d.Successor(w.ctx)
		w.ok(err)
		defer next.Close()
		want := w.Page(page)
		_ = next.Sync(w.ctx) // the lease is over for it, and somebody may be about to take the task
		w.pageIs(want)
		time.Sleep(2 * time.Second)
		w.claim(other, "Oracle")
	})
}

// Somebody who is put into the column of assignees has the task, whatever of the claim is left on the card. An agent's
// own bot there changes nothing.
func TestAssignedInTheColumn(t *testing.T) {
	maria := func(t *task.Task) { t.Assignee = "Maria" }
	bot := func(t *task.Task) { t.Assignee, t.AssigneeIsAgent = "Sandman", true }
	for name, tt := range map[string]struct {
		before, edit func(*task.Task)
		settling     bool
		lost         string
		want         task.Status
	}{
		"held":                       {edit: maria, lost: "assigned to Maria", want: task.Open},
		"held, and the name cleared": {edit: func(t *task.Task) { t.Assignee, t.ClaimedBy = "Maria", "" }, lost: "assigned to Maria", want: task.Open},
		"settling":                   {edit: maria, settling: true, lost: "assigned to Maria", want: task.Open},
		"settling, and blocked":      {before: bot, edit: status(task.Blocked), settling: true, lost: "BLOCKED by a person", want: task.Blocked},
		"the agent's own bot":        {edit: bot},
		"the bot of another":         {edit: func(t *task.Task) { t.Assignee, t.AssigneeIsAgent = "Oracle", true }, lost: "assigned to Oracle", want: task.Open},
	} {
		for _, by := range []string{"sync", "finish"} {
			play(t, name+", "+by, openTask(), func(w *world) {
				d := w.daemon("a")
				if tt.before != nil {
					w.Edit(page, tt.before)
				}
				if tt.settling {
					time.AfterFunc(time.Second, func() { w.Edit(page, tt.edit) })
					_, err := d.Claim(w.ctx, request("Sandman"))
					if denied := w.denied(err); !strings.Contains(denied.Detail, tt.lost) {
						w.Errorf("denied: %v, want %q", denied, tt.lost)
					}
				} else {
					c := w.claim(d, "Sandman")
					w.Edit(page, tt.edit)
					if by == "sync" {
						w.sync(sim.SyncInterval, d)
					}
					if tt.lost == "" {
						w.finish(d, c, claim.EndCompleted)
						return
					}
					if lost := w.refused(d, c, claim.EndCompleted); !strings.Contains(lost.Detail, tt.lost) {
						w.Errorf("lost: %v, want %q", lost, tt.lost)
					}
				}
				w.sync(2*time.Minute, d)
				w.shows(tt.want, "", "")
				w.none(d)
			})
		}
	}
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

// graceful is how long it takes until a claim that is over is off its page again.
const graceful = 2 * time.Minute

// A card that shows a claim which is over, as after an undo, is reopened by the daemon
// that had it, also after a restart; to everybody else it would be held.
func TestCardShowsAClaimThatIsOver(t *testing.T) {
	for name, end := range endings {
		play(t, name, openTask(), func(w *world) {
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
				w.Errorf("event %+v, want it to say whose claim was taken off", e)
			}
			w.none(d)
			w.claim(other, "Oracle")
		})
	}
	// A completed card that a person drags back to IN_PROGRESS is nobody's.
	play(t, "dragged back", openTask(), func(w *world) {
		d := w.daemon("a")
		w.finish(d, w.claim(d, "Sandman"), claim.EndCompleted)
		w.Edit(page, status(task.InProgress))
		w.sync(graceful, d)
		w.shows(task.Open, "", "")
	})
	// Over a claim that lives, because somebody restored an old version of the page, that one comes back.
	for name, other := range map[string]string{"over another's": "b", "over a later one": "a"} {
		play(t, name, openTask(), func(w *world) {
			d := w.daemon("a")
			daemons := map[string]*sim.Daemon{"a": d, "b": w.daemon("b")}
			c := w.claim(d, "Sandman")
			before := w.Page(page)
			w.finish(d, c, claim.EndReleased)
			live := w.claim(daemons[other], "Oracle")
			w.sync(time.Minute, d, daemons["b"])
			w.Edit(page, func(t *task.Task) { *t = before })
			w.sync(3*time.Minute, d, daemons["b"])
			w.shows(task.InProgress, "Oracle", string(live.ID))
			w.finish(daemons[other], live, claim.EndCompleted)
		})
	}
	// One whose lease is over is left to be overridden or swept: somebody may be about to. It costs nothing.
	for name, edit := range map[string]func(*task.Task){"its lease is over": func(*task.Task) {}, "its lease is over, and it is open": status(task.Open)} {
		play(t, name, openTask(), func(w *world) {
			d := w.daemon("a")
			c := w.claim(d, "Sandman")
			before := w.Page(page)
			w.finish(d, c, claim.EndReleased)
			time.Sleep(31 * time.Minute)
			w.Edit(page, func(t *task.Task) { *t = before; edit(t) })
			want := w.Page(page)
			w.sync(sim.SyncInterval, d)
			sent := len(d.Store.Calls())
			w.sync(10*time.Minute, d)
			w.sent(d, sent, 0)
			w.pageIs(want)
		})
	}
}

// A duplicated card, or one made from a template, is a task of its own. Its copy of a claim
// is nobody's.
func TestDuplicatedCard(t *testing.T) {
	for name, status := range map[string]task.Status{"in progress": task.InProgress, "open": task.Open} {
		for _, over := range []bool{false, true} {
			play(t, name, openTask(), func(w *world) {
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
					w.Errorf("the duplicate shows %+v, want it for everybody", got)
				}
				if diff := cmp.Diff(original, w.Page(page)); diff != "" {
					w.Errorf("the original (-want +got):\n%s", diff)
				}
				if e := w.last(d, claim.KindCleared); e.Claim != "" || e.Agent != "" || e.Task != otherPage {
					w.Errorf("event %+v, want nobody to be told", e)
				}
				if _, err := other.Claim(w.ctx, claim.Request{Agent: "Oracle", Task: task.Task{ID: otherPage}}); err != nil {
					w.Errorf("the duplicate cannot be claimed: %v", err)
				}
				if over {
					return
				}
				w.ok(d.Guard(w.ctx, c.ID, nil))
			})
		}
	}
}

// A card that is as it should be costs nothing.
func TestCardsThatAreAsTheyShouldBe(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.claim(other, "Oracle") // unknown to the first
		sent := len(d.Store.Calls())
		w.sync(5*time.Minute, d)
		w.sent(d, sent, 0)
	})
}

// A mark whose date a person cleared on a card that is OPEN is an assignment, which may be
// claimed at any moment: nothing is written to it.
func TestMarkBecomesAnAssignment(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.marked(d, claim.Voided)
		w.Edit(page, func(t *task.Task) { t.Status, t.ClaimedAt = task.Open, time.Time{} })
		want := w.Page(page)
		w.sync(graceful, d)
		w.pageIs(want)
		w.none(d)
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
							w.Errorf("it is reserved for %q, want Maria", denied.Holder)
						}
						w.sweeps(daemon, false)
					}
					w.pageIs(want)
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

// play runs a case of a test in a world with that task.
func play(t *testing.T, name string, first task.Task, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, first, test) })
}

// events checks what the daemon recorded, in order.
func (w *world) events(d *sim.Daemon, want ...claim.Kind) {
	w.Helper()
	if diff := cmp.Diff(want, kinds(d)); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

// pageIs checks all that the page shows.
func (w *world) pageIs(want task.Task) {
	w.Helper()
	if diff := cmp.Diff(want, w.Page(page)); diff != "" {
		w.Errorf("page (-want +got):\n%s", diff)
	}
}

// held checks that the daemon's only claim is held.
func (w *world) held(d *sim.Daemon) {
	w.Helper()
	if got := w.only(d).State; got != claim.Held {
		w.Fatalf("the claim is %s, want held", got)
	}
}

// owes checks that Notion has yet to be told of the end of a claim.
func (w *world) owes(c claim.Hold) {
	w.Helper()
	if c.State != claim.Finishing {
		w.Fatalf("the claim is %s, want finishing", c.State)
	}
}

// marked checks the state of the daemon's only mark.
func (w *world) marked(d *sim.Daemon, want claim.MarkState) {
	w.Helper()
	if got := w.onlyMark(d).State; got != want {
		w.Fatalf("the mark is %s, want %s", got, want)
	}
}

// ended checks how a claim ended.
func (w *world) ended(d *sim.Daemon, c claim.Hold, as claim.Ending) {
	w.Helper()
	if got := w.record(d, c.ID); got.State != claim.Ended || got.Ending != as {
		w.Errorf("the claim is %s, %s; want %s", got.State, got.Ending, as)
	}
}

// end ends a claim, of which Notion may have yet to be told.
func (w *world) end(d *sim.Daemon, c claim.Hold, f claim.Finish) claim.Hold {
	w.Helper()
	got, err := d.Finish(w.ctx, c.ID, f)
	w.ok(err)
	return got
}

// accepted is end with nothing else to say.
func (w *world) accepted(d *sim.Daemon, c claim.Hold, as claim.Ending) claim.Hold {
	w.Helper()
	return w.end(d, c, claim.Finish{As: as})
}

// due takes the steps that are due.
func (w *world) due(d *sim.Daemon) {
	w.Helper()
	_, err := d.RunDue(w.ctx)
	w.ok(err)
}

// latest returns the last event that the daemon recorded.
func latest(d *sim.Daemon) claim.Fact {
	all := d.Ledger.Events()
	return all[len(all)-1]
}

// finish ends a claim, of which Notion is told at once.
func (w *world) finish(d *sim.Daemon, c claim.Hold, as claim.Ending) {
	w.Helper()
	if got := w.accepted(d, c, as); got.State != claim.Ended {
		w.Fatalf("the claim is %s; want it ended", got.State)
	}
}

// refused has the end of a claim be refused because the claim is lost.
func (w *world) refused(d *sim.Daemon, c claim.Hold, as claim.Ending) *claim.Lost {
	w.Helper()
	_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: as})
	return w.lost(err)
}

// renew renews a claim.
func (w *world) renew(d *sim.Daemon, c claim.Hold) claim.Hold {
	w.Helper()
	got, err := d.Renew(w.ctx, c.ID)
	w.ok(err)
	return got
}

// sweeps sweeps the page, and checks whether that took a claim off it.
func (w *world) sweeps(d *sim.Daemon, want bool) {
	w.Helper()
	if _, swept, err := d.Sweep(w.ctx, page); swept != want || err != nil {
		w.Errorf("swept = %v, %v; want %v", swept, err, want)
	}
}

// sent checks how many requests the daemon sent since it had sent that many.
func (w *world) sent(d *sim.Daemon, since, want int) {
	w.Helper()
	if n := len(d.Store.Calls()) - since; n != want {
		w.Errorf("%d requests, want %d", n, want)
	}
}

// counts checks how many requests of a kind the daemon sent.
func (w *world) counts(d *sim.Daemon, k sim.Kind, want int) {
	w.Helper()
	if n := count(d, k); n != want {
		w.Errorf("%d requests of the kind %s, want %d", n, k, want)
	}
}

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
