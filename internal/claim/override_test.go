package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

func TestOverride(t *testing.T) {
	for _, status := range []task.Status{task.InProgress, task.Open} {
		t.Run(string(status), func(t *testing.T) {
			first := staleTask()
			first.Status = status
			inWorld(t, first, func(w *world) {
				o := sim.DaemonOptions{Policy: sim.Policy()}
				o.Policy.OpenOnly = status == task.Open // does not stand in the way of an open task
				d := w.start(o)
				c := w.claim(d, "Sandman")
				if c.Former != "Ghost" {
					t.Errorf("claim %+v, want an override of Ghost", c)
				}
				w.shows(task.InProgress, "Sandman", string(c.ID))
				events := d.Ledger.Events()
				if len(events) != 2 || events[0].Kind != claim.KindGranted || events[1].Kind != claim.KindOverridden || events[1].Holder != "Ghost" || events[1].Agent != "Sandman" {
					t.Errorf("events %+v, want granted and overridden", events)
				}
			})
		})
	}
}

// An override through the same daemon ends the claim that went stale.
func TestOverrideOfOnesOwn(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		old := w.claim(d, "Sandman")
		second := openTask()
		second.ID = otherPage
		w.Add(second)
		other, err := d.Claim(w.ctx, claim.Request{Agent: "Hypnos", Task: second})
		w.ok(err)
		time.Sleep(time.Until(old.StaleAt))
		w.deny(d, "Oracle", claim.CodeHeld)
		time.Sleep(time.Second)
		w.claim(d, "Oracle")
		if got := w.record(d, old.ID); got.State != claim.Ended || got.Ending != claim.EndOverridden {
			t.Errorf("the stale claim is %s, %s; want it overridden", got.State, got.Ending)
		}
		_, err = d.Finish(w.ctx, old.ID, claim.Finish{As: claim.EndCompleted})
		w.lost(err)
		if got := w.record(d, other.ID); got.State != claim.Held {
			t.Errorf("the claim on another task is %s, %s; want it held", got.State, got.Ending)
		}
	})
}
