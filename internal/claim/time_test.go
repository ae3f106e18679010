package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// skewed is a daemon whose own clock is wrong.
func skewed(name string, by time.Duration) sim.DaemonOptions {
	o := steady(name)
	o.Skew = by
	return o
}

// Staleness is judged by Notion's time, and to the second: whatever the daemons'
// clocks say and whatever the second of the minute at which a claim was made,
// nobody overrides it while its holder trusts it, and somebody can soon after.
func TestNobodyOverridesEarly(t *testing.T) {
	step := time.Duration(7)
	if testing.Short() || testkit.Race {
		step *= 4
	}
	for _, holder := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		for _, rival := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
			for second := time.Duration(0); second < 60; second += step {
				inWorld(t, openTask(), func(w *world) {
					time.Sleep(second*time.Second + 950*time.Millisecond)
					a := w.start(skewed("a", holder))
					c := w.claim(a, "Sandman")
					if got := time.Until(c.ExpiresAt()); got < 29*time.Minute || got > 30*time.Minute {
						t.Fatalf("the lease of 30 minutes lasts for another %v", got)
					}
					// The last of its retries is granted.
					b := w.start(skewed("b", rival))
					time.Sleep(time.Until(c.ExpiresAt()) - 3*time.Second)
					for {
						asked := time.Now()
						if granted := w.race(entrant{daemon: b, agent: "Oracle"}); len(granted) > 0 {
							if asked.Before(c.ExpiresAt()) {
								t.Errorf("clocks wrong by %v and %v, claimed at %v: overridden %v before the lease ended", holder, rival, c.ClaimedAt, c.ExpiresAt().Sub(asked))
							}
							break
						}
						if time.Since(c.StaleAt) > 3*time.Second {
							t.Fatalf("clocks wrong by %v and %v, claimed at %v: not overridden although stale since %v", holder, rival, c.ClaimedAt, c.StaleAt)
						}
						time.Sleep(200 * time.Millisecond)
					}
				})
			}
		}
	}
}

// A clock that jumps in the middle of things does not make a lease that its
// holder counts on and others do not, nor a claim that two have.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		for at := time.Duration(0); at < 5*time.Second; at += 50 * time.Millisecond {
			inWorld(t, openTask(), func(w *world) {
				a, b := w.start(steady("a")), w.start(steady("b"))
				time.AfterFunc(at, func() { a.Store.SetSkew(jump) })
				granted := w.race(entrant{daemon: a, agent: "Sandman"}, entrant{daemon: b, agent: "Oracle", after: 2 * time.Second})
				if len(granted) == 0 && jump > 0 && at < 3*time.Second {
					// By that clock the answer to the claim write came too late.
					w.sync(2*time.Minute, a, b)
					granted = w.race(entrant{daemon: a, agent: "Sandman"}, entrant{daemon: b, agent: "Oracle", after: 2 * time.Second})
				}
				if len(granted) != 1 {
					t.Fatalf("jump of %v after %v: %d were granted the task, want 1", jump, at, len(granted))
				}
				holder := a
				if granted[0].Agent == "Oracle" {
					holder = b
				}
				w.honoured(holder)
				// Renewals, too.
				time.Sleep(20 * time.Minute)
				holder.Store.SetSkew(-jump)
				_, err := holder.Renew(w.ctx, granted[0].ID)
				w.ok(err)
				w.honoured(holder)
			})
		}
	}
}

// A clock that jumps ahead does not cut short the grace that a holder has to
// write its claim back.
func TestClockJumpsDuringTheGrace(t *testing.T) {
	for _, jump := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		for at := 20 * time.Second; at < 40*time.Second; at += 500 * time.Millisecond {
			inWorld(t, openTask(), func(w *world) {
				d, other, c := w.late(20 * time.Second)
				// Not at the very moment of a step, which may go by the clock before and after it.
				time.AfterFunc(at-3*time.Second+100*time.Millisecond, func() { other.Store.SetSkew(jump) })
				for time.Since(bubbleStart) < 50*time.Second { // the holder's look comes late
					_, _ = other.Sighted(w.ctx, w.Page(page).Token)
					_, err := other.RunDue(w.ctx)
					w.ok(err)
					time.Sleep(time.Second)
				}
				w.sync(3*time.Minute, d, other)
				if got := w.only(d); got.State != claim.Held {
					t.Fatalf("jump of %v after %v: the claim is %s, want held", jump, at, got.State)
				}
				w.shows(task.InProgress, "Sandman", string(c.ID))
				w.none(other)
			})
		}
	}
}
