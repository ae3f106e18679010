package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

func TestOverride(t *testing.T) {
	for _, status := range []task.Status{task.InProgress, task.Open} {
		t.Run(string(status), func(t *testing.T) {
			first := staleTask()
			first.Status = status
			inWorld(t, first, func(w *world) {
				o := claimsim.DaemonOptions{Policy: claimsim.Policy()}
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

func TestRequestedTimeout(t *testing.T) {
	tests := []struct {
		name            string
		own             time.Duration // the task's
		requested       time.Duration
		noTimeout       bool
		lease, honoured time.Duration // the holder's, and what others grant
	}{
		{name: "shorter than the default", requested: 10 * time.Minute, lease: 10 * time.Minute, honoured: 10 * time.Minute},
		{name: "longer than the default", requested: 2 * time.Hour, lease: 2 * time.Hour, honoured: 2 * time.Hour},
		{name: "instead of the task's own", own: 5 * time.Minute, requested: time.Hour, lease: time.Hour, honoured: time.Hour},
		{name: "none, with the task's own", own: 5 * time.Minute, lease: 5 * time.Minute, honoured: 5 * time.Minute},
		{name: "longer than others can know", requested: 2 * time.Hour, noTimeout: true, lease: 30 * time.Minute, honoured: 30 * time.Minute},
		{name: "shorter than others can know", requested: 10 * time.Minute, noTimeout: true, lease: 10 * time.Minute, honoured: 30 * time.Minute},
		{name: "not in whole minutes", requested: 90 * time.Second, lease: 90 * time.Second, honoured: 2 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := claimsim.NewRegister()
				reg.NoTimeout = tt.noTimeout
				first := openTask()
				first.Timeout = tt.own
				reg.Add(first)
				w := &world{T: t, Register: reg, ctx: t.Context()}
				d := w.daemon("a")
				r := request("Sandman")
				r.Timeout = tt.requested
				c, err := d.Claim(w.ctx, r)
				w.ok(err)
				if got := c.ExpiresAt().Sub(c.ClaimedAt); got != tt.lease {
					t.Errorf("lease %v, want %v", got, tt.lease)
				}
				if got, want := c.StaleAt, bubbleStart.Add(time.Minute+tt.honoured+15*time.Second); !got.Equal(want) {
					t.Errorf("stale at %v, want %v", got, want)
				}
				// Others agree.
				rival := w.daemon("b")
				time.Sleep(time.Until(c.StaleAt))
				w.deny(rival, "Oracle", claim.CodeHeld)
				time.Sleep(time.Second)
				w.claim(rival, "Oracle")
			})
		})
	}
}
