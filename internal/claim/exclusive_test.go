package claim_test

import (
	"context"
	"slices"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// alone is a daemon that is the only claimer and does not wait for the page to settle.
func (w *world) alone(faults ...sim.Fault) *sim.Daemon {
	w.Helper()
	o := sim.DaemonOptions{Policy: sim.Policy()}
	o.Policy.Exclusive, o.Policy.Settle = true, 0
	return w.start(o, faults...)
}

// Where nobody else claims, the answer to the write is enough.
func TestClaimWithoutSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.alone()
		c := w.claim(d, "Sandman")
		if want := []sim.Kind{sim.Reads, sim.Claims}; !slices.Equal(requests(d), want) {
			t.Errorf("requests %v, want %v", requests(d), want)
		}
		w.shows(task.InProgress, "Sandman", string(c.ID))
		_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
		w.ok(err)
		w.shows(task.Completed, "Sandman", "done "+string(c.ID)+" "+c.Agent)
	})
}

// An answer that does not show the claim, all of it, grants nothing by itself.
func TestNotShownWithoutSettling(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"not applied":    sim.NotApplied,
		"answer dropped": sim.AnswerDropped,
		"slow":           sim.Slow(0, 3e9),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.alone(sim.InTurn(sim.Claims, fault))
				if _, err := d.Claim(w.ctx, request("Sandman")); err == nil && count(d, sim.Reads) < 2 {
					t.Errorf("granted after %v", requests(d))
				}
			})
		})
	}
}

// A person who puts another name on the task at the same moment wins.
func TestOverwrittenWithoutSettling(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.alone(func(s claim.Store) claim.Store { return overwritten{s, w} })
		if denied := w.deny(d, "Sandman", claim.CodeLostRace); denied.Holder != "Maria" {
			t.Errorf("denied %+v, want Maria as holder", denied)
		}
		w.shows(task.InProgress, "Maria", string(w.onlyMark(d).ID))
	})
}

// overwritten is a store on which a person puts her name right after each claim.
type overwritten struct {
	claim.Store
	w *world
}

func (s overwritten) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	r, err := s.Store.Write(ctx, id, w)
	if sim.KindOf(&w) == sim.Claims {
		s.w.Edit(id, func(t *task.Task) { t.ClaimedBy = "Maria" })
		r.Task.ClaimedBy = "Maria"
	}
	return r, err
}
