package claim_test

import (
	"context"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// A caller that goes away leaves nothing behind, whenever it goes.
func TestCallerGone(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 350 * time.Millisecond, 2 * time.Second, 3550 * time.Millisecond} {
			name := at.String()
			if keep {
				name += ", kept"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					d := w.start(steady("a"))
					ctx, cancel := context.WithCancel(w.ctx)
					time.AfterFunc(at, cancel)
					r := request("Sandman")
					r.Keep = keep
					c, err := d.Claim(ctx, r)
					// From the claim write on, the attempt is seen through.
					if keep && at >= 200*time.Millisecond {
						w.ok(err)
						if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
							t.Errorf("claim %s is %s, want %s held", got.ID, got.State, c.ID)
						}
						w.shows(task.InProgress, "Sandman", string(c.ID))
						return
					}
					if err == nil {
						t.Fatal("granted, although nobody hears it")
					}
					w.sync(2*time.Minute, d)
					w.none(d)
					w.shows(task.Open, "", "")
					w.claim(d, "Oracle")
				})
			})
		}
	}
}

// leaving is a board whose caller goes away when it is asked.
type leaving struct {
	claim.OpenBoard
	cancel func()
}

func (l leaving) Blockers(context.Context, task.Task) ([]task.ID, error) {
	l.cancel()
	return nil, nil
}

// A caller that goes away between the read and the write has nothing written.
func TestCallerGoneBeforeTheWrite(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		d := w.start(sim.DaemonOptions{Board: leaving{cancel: cancel}})
		if _, err := d.Claim(ctx, request("Sandman")); err == nil {
			t.Error("granted, although nobody hears it")
		}
		if n := count(d, sim.Claims); n != 0 {
			t.Errorf("%d claim writes, want none", n)
		}
		w.none(d)
	})
}

// A caller may go away while it waits for its turn on the task.
func TestCallerGoneWhileWaiting(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.start(steady("a"))
		c := w.claim(d, "Sandman")
		time.Sleep(time.Until(c.StaleAt) + time.Second)
		go d.Renew(w.ctx, c.ID) // has the task to itself for some seconds
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := d.Claim(ctx, request("Oracle"))
		if denied := w.denied(err); denied.Code != claim.CodeNotionUnavailable {
			t.Errorf("denied %+v", denied)
		}
		time.Sleep(time.Minute)
		if got := w.only(d); got.ID != c.ID || got.State != claim.Held {
			t.Errorf("%s of %s is %s, want Sandman's held", got.ID, got.Agent, got.State)
		}
	})
}

// The daemon stops in the middle of an attempt; the next one takes it back.
func TestCloseDuringAnAttempt(t *testing.T) {
	for _, at := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 350 * time.Millisecond, 2 * time.Second, 3450 * time.Millisecond, 3550 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				d := w.start(steady("a"))
				time.AfterFunc(at, d.Close)
				_, err := d.Claim(w.ctx, request("Sandman"))
				if err == nil {
					t.Fatal("granted by a daemon that was stopped")
				}
				w.ok(d.Restart(w.ctx))
				w.sync(5*time.Minute, d)
				w.shows(task.Open, "", "")
				w.claim(d, "Oracle")
			})
		})
	}
}
