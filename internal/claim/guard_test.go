package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// A held claim whose page shows it costs nothing to watch.
func TestGuardOfAnUntouchedClaim(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		sent := len(d.Store.Calls())
		row := w.Page(page)
		w.ok(d.Guard(w.ctx, c.ID, &row))
		if n := len(d.Store.Calls()); n != sent {
			t.Errorf("%d requests, want none", n-sent)
		}
		w.ok(d.Guard(w.ctx, c.ID, nil)) // the row is not known: the page is read
		if n := len(d.Store.Calls()); n != sent+1 {
			t.Errorf("%d requests, want 1", n-sent)
		}
		if diff := cmp.Diff(c, w.only(d)); diff != "" {
			t.Errorf("the claim changed:\n%s", diff)
		}
		// A row from before the claim is a hint, and no more.
		old := openTask()
		w.ok(d.Guard(w.ctx, c.ID, &old))
		if diff := cmp.Diff(c, w.only(d)); diff != "" {
			t.Errorf("the claim changed:\n%s", diff)
		}
	})
}

// What a person does to a claimed task is final, and is known here within a
// sync interval.
func TestGuardOfPersonEdits(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*task.Task)
		holder string
		after  func(*task.Task) // what the daemon that held it makes of the edit, if anything
	}{
		{"cleared", func(t *task.Task) { unclaim(t); t.Status = task.Open }, "", nil},
		{"name cleared", func(t *task.Task) { t.ClaimedBy = "" }, "", nil},
		{"all but the status cleared", unclaim, "", nil},
		{"given to somebody else", func(t *task.Task) { t.ClaimedBy = "Maria" }, "Maria", func(t *task.Task) { t.ClaimedAt, t.Token = time.Time{}, "" }},
		{"given to somebody else, without a token", func(t *task.Task) { t.ClaimedBy, t.Token = "Maria", "" }, "Maria", nil},
		{"opened", func(t *task.Task) { t.Status = task.Open }, "", unclaim},
		{"cancelled", func(t *task.Task) { t.Status = task.Cancelled }, "", nil},
		{"blocked", func(t *task.Task) { t.Status = task.Blocked }, "", nil},
		{"completed", func(t *task.Task) { t.Status = task.Completed }, "", nil},
		{"status unknown", func(t *task.Task) { t.Status = task.Unknown }, "", nil},
		{"token cleared", func(t *task.Task) { t.Token = "" }, "Sandman", nil},
		{"token overwritten", func(t *task.Task) { t.Token = "mine!" }, "Sandman", nil},
		{"trashed", func(t *task.Task) { t.Trashed = true }, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				c := w.claim(d, "Sandman")
				time.Sleep(time.Minute)
				w.Edit(page, tt.edit)
				edited := w.Page(page)
				row := &edited
				if edited.Trashed {
					row = nil // no query shows it
				}
				want, events := edited, []claim.Kind{claim.KindGranted, claim.KindLost}
				if tt.after != nil {
					tt.after(&want)
					events = append(events, claim.KindCleared)
				}
				lost := w.lost(d.Guard(w.ctx, c.ID, row))
				if lost.Holder != tt.holder || lost.Detail == "" {
					t.Errorf("lost %+v, want holder %q, and why", lost, tt.holder)
				}
				if diff := cmp.Diff(want, w.Page(page)); diff != "" {
					t.Errorf("the page changed:\n%s", diff)
				}
				if got := w.record(d, c.ID); got.State != claim.Ended || got.Ending != claim.EndLost {
					t.Errorf("the claim is %s, %s; want it lost", got.State, got.Ending)
				}
				if diff := cmp.Diff(events, kinds(d)); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
				w.lost(err)
				w.ok(d.Guard(w.ctx, c.ID, row)) // it has been said
			})
		})
	}
}

func TestGuardOfARemovedPage(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		c := w.claim(d, "Sandman")
		w.Remove(page)
		w.lost(d.Guard(w.ctx, c.ID, nil))
	})
}

func TestGuardWithNotionDown(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Reads, nil, nil, sim.ReadFails(claim.Unavailable)))
		c := w.claim(d, "Sandman")
		if err := d.Guard(w.ctx, c.ID, nil); err == nil {
			t.Error("no error, although the page could not be read")
		}
		if got := w.only(d).State; got != claim.Held {
			t.Errorf("the claim is %s, want held: nothing is known", got)
		}
	})
}

// A person may change how long a lease lasts. The holder must not trust its
// claim for longer than others grant it.
func TestGuardOfTheLease(t *testing.T) {
	tests := []struct {
		name string
		edit func(*task.Task)
	}{
		{"shorter", func(t *task.Task) { t.Timeout = 12 * time.Minute }},
		{"longer", func(t *task.Task) { t.Timeout = 2 * time.Hour }},
		{"set back", func(t *task.Task) { t.ClaimedAt = t.ClaimedAt.Add(-20 * time.Minute) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.daemon("a")
				w.claim(d, "Sandman")
				time.Sleep(time.Minute)
				w.Edit(page, tt.edit)
				w.sync(sim.SyncInterval, d)
				w.honoured(d)
				sent := len(d.Store.Calls())
				w.sync(time.Minute, d)
				if n := len(d.Store.Calls()); n != sent {
					t.Errorf("%d more requests, want none: it is known now", n-sent)
				}
			})
		})
	}
}

// late has the first claim of another daemon, made at the same time as that of
// d, land that much later, over the claim of d.
func (w *world) late(by time.Duration) (d, other *sim.Daemon, c claim.Hold) {
	w.Helper()
	other = w.daemon("b", sim.InTurn(sim.Claims, sim.Late(by)))
	d = w.daemon("a")
	granted := w.race(entrant{daemon: other, agent: "Oracle"}, entrant{daemon: d, agent: "Sandman", after: time.Millisecond})
	if len(granted) != 1 || granted[0].Agent != "Sandman" {
		w.Fatalf("granted %+v, want Sandman's claim", granted)
	}
	return d, other, granted[0]
}

// A late write that covers a verified claim is withdrawn by its writer, and the
// holder writes its own back. Nobody else gets the task meanwhile.
func TestLateWriteOverAHeldClaim(t *testing.T) {
	for _, by := range []time.Duration{4 * time.Second, 7 * time.Second, 20 * time.Second, 59 * time.Second} {
		for _, order := range []string{"holder first", "writer first"} {
			t.Run(by.String()+", "+order, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d, other, c := w.late(by)
					third := w.daemon("c")
					daemons := []*sim.Daemon{d, other}
					if order == "writer first" {
						daemons = []*sim.Daemon{other, d}
					}
					for range 12 {
						w.sync(sim.SyncInterval, daemons...)
						if got := w.only(d).State; got != claim.Held {
							t.Fatalf("the claim is %s, want held", got)
						}
						w.deny(third, "Hypnos", claim.CodeHeld)
					}
					w.shows(task.InProgress, "Sandman", string(c.ID))
					w.none(other)
					if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindConflict}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
					w.ok(err)
					w.finished(c, task.Completed)
				})
			})
		}
	}
}

// If the writer of a late claim never comes back, the holder believes it after
// the grace.
func TestSuspicionThatTurnsOutTrue(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, _, c := w.late(20 * time.Minute)
		time.Sleep(20 * time.Minute)
		begun := time.Now()
		w.sync(2*sim.SyncInterval, d)
		if got := w.only(d); got.State != claim.Held || got.Suspect.IsZero() {
			t.Fatalf("the claim is %s, suspect since %v; want it held and under suspicion", got.State, got.Suspect)
		}
		// While in doubt, a renewal neither writes nor loses.
		got, err := d.Renew(w.ctx, c.ID)
		w.ok(err)
		if !got.ClaimedAt.Equal(c.ClaimedAt) || count(d, sim.Renewals) != 0 {
			t.Errorf("renewed at %v, while somebody else's claim lay over it", got.ClaimedAt)
		}
		w.sync(time.Minute, d)
		if got := w.record(d, c.ID); got.Ending != claim.EndLost || got.Ended.Sub(begun) > d.Policy().Grace+sim.SyncInterval {
			t.Errorf("the claim is %s, %s after %v; want it lost after the grace", got.State, got.Ending, got.Ended.Sub(begun))
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindLost}, kinds(d)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// What an agent does while its claim is covered by a late write.
func TestFinishUnderALateWrite(t *testing.T) {
	for _, tt := range finishes {
		for _, wait := range []time.Duration{0, 10 * time.Second} { // covered by the claim, or by its void mark
			t.Run(tt.name+", "+wait.String(), func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d, other, c := w.late(20 * time.Second)
					time.Sleep(20 * time.Second)
					if wait > 0 {
						w.sync(wait, other)
					}
					got, err := d.Finish(w.ctx, c.ID, tt.finish)
					w.ok(err)
					if wait == 0 && got.State != claim.Finishing {
						t.Errorf("the claim is %s, want finishing until the late write is explained", got.State)
					}
					w.sync(5*time.Minute, other, d)
					w.finished(c, tt.status)
					w.none(d)
					w.none(other)
					if diff := cmp.Diff([]claim.Kind{claim.KindGranted, tt.kind}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// A renewal finds the claim covered by a void one, and writes it back.
func TestRenewUnderALateWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other, c := w.late(50 * time.Second)
		time.Sleep(50 * time.Second)
		w.sync(sim.SyncInterval, other)
		time.Sleep(time.Until(c.ClaimedAt.Add(16 * time.Minute)))
		_, err := d.Renew(w.ctx, c.ID)
		w.ok(err)
		w.shows(task.InProgress, "Sandman", string(c.ID))
		w.honoured(d)
		w.ok(d.KeepAlive(w.ctx)) // the sign of life is good for a renewal yet
		if got := w.only(d); !got.ClaimedAt.After(c.ClaimedAt) {
			t.Errorf("claimed at %v, want it renewed", got.ClaimedAt)
		}
		w.honoured(d)
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindConflict, claim.KindRenewed}, kinds(d)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Writing a claim back can fail like any other write. It is logged once.
func TestFateOfTheRepair(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"answer dropped":  sim.AnswerDropped,
		"request dropped": sim.RequestDropped,
		"not applied":     sim.NotApplied,
		"turned away":     sim.TurnedAway(429, time.Second),
		"applied late":    sim.AppliedLate(2 * time.Second),
	} {
		for _, order := range []string{"holder first", "writer first"} {
			t.Run(name+", "+order, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					other := w.daemon("b", sim.InTurn(sim.Claims, sim.Late(20*time.Second)))
					d := w.daemon("a", sim.InTurn(sim.Claims, nil, fault))
					granted := w.race(entrant{daemon: other, agent: "Oracle"}, entrant{daemon: d, agent: "Sandman", after: time.Millisecond})
					daemons := []*sim.Daemon{d, other}
					if order == "writer first" {
						daemons = []*sim.Daemon{other, d}
					}
					w.sync(3*time.Minute, daemons...)
					w.shows(task.InProgress, "Sandman", string(granted[0].ID))
					if got := w.only(d); got.State != claim.Held || !got.Suspect.IsZero() || !got.Due.IsZero() || got.Detail != "" {
						t.Errorf("the claim is %s, suspect since %v, due at %v, %q; want it held and no more", got.State, got.Suspect, got.Due, got.Detail)
					}
					w.none(other)
					if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindConflict}, kinds(d)); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// A daemon knows which attempts it abandoned, and does not wait for its own to be
// withdrawn.
func TestLateWriteOfTheSameDaemon(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(20*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		c := w.claim(d, "Oracle")
		time.Sleep(20 * time.Second)
		w.ok(d.Guard(w.ctx, c.ID, nil))
		w.shows(task.InProgress, "Oracle", string(c.ID))
		w.sync(3*time.Minute, d)
		w.shows(task.InProgress, "Oracle", string(c.ID))
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			t.Errorf("%s of %s is %s, want Oracle's claim held", got.ID, got.Agent, got.State)
		}
	})
}

// A suspicion that somebody else clears up is over.
func TestSuspicionClearedUp(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, _, c := w.late(20 * time.Second)
		mine := w.Page(page)
		time.Sleep(20 * time.Second)
		w.sync(sim.SyncInterval, d)
		if got := w.only(d); got.Suspect.IsZero() {
			t.Fatal("the claim is not under suspicion")
		}
		w.Edit(page, func(t *task.Task) { *t = mine })
		w.sync(sim.SyncInterval, d)
		if got := w.only(d); got.ID != c.ID || !got.Suspect.IsZero() {
			t.Errorf("the claim is %s, suspect since %v; want it held and no more", got.State, got.Suspect)
		}
		if diff := cmp.Diff([]claim.Kind{claim.KindGranted, claim.KindConflict}, kinds(d)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
