package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

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
