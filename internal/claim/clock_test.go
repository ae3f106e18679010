package claim_test

import (
	"errors"
	"fmt"
	"strings"
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
						w.Fatalf("the lease of 30 minutes lasts for another %v", got)
					}
					// The last of its retries is granted.
					b := w.start(skewed("b", rival))
					time.Sleep(time.Until(c.ExpiresAt()) - 3*time.Second)
					for {
						asked := time.Now()
						if granted := w.race(entrant{daemon: b, agent: "Oracle"}); len(granted) > 0 {
							if asked.Before(c.ExpiresAt()) {
								w.Errorf("clocks wrong by %v and %v, claimed at %v: overridden %v before the lease ended", holder, rival, c.ClaimedAt, c.ExpiresAt().Sub(asked))
							}
							break
						}
						if time.Since(c.StaleAt) > 3*time.Second {
							w.Fatalf("clocks wrong by %v and %v, claimed at %v: not overridden although stale since %v", holder, rival, c.ClaimedAt, c.StaleAt)
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
					w.Fatalf("jump of %v after %v: %d were granted the task, want 1", jump, at, len(granted))
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
					w.due(other)
					time.Sleep(time.Second)
				}
				w.sync(3*time.Minute, d, other)
				w.held(d)
				w.shows(task.InProgress, "Sandman", string(c.ID))
				w.none(other)
			})
		}
	}
}

// onRequest lets a fault strike the n-th request after it is armed, whatever it is for;
// none before that.
type onRequest struct {
	armed   bool
	n, sent int
}

func (o *onRequest) fault(f sim.Fault) sim.Fault {
	return sim.On(func(task.ID, *claim.Write) bool {
		if !o.armed {
			return false
		}
		o.sent++
		return o.sent-1 == o.n
	}, f)
}

// wrongDates are Dates of which one is wrong, and that which is missing.
func wrongDates() map[string]sim.Fault {
	faults := map[string]sim.Fault{"no date": sim.NoDate}
	for _, by := range []time.Duration{-10 * 365 * 24 * time.Hour, -time.Hour, -20 * time.Second, 20 * time.Second, time.Minute, time.Hour, 10 * 365 * 24 * time.Hour} {
		faults["off by "+by.String()] = sim.WrongDate(by)
	}
	return faults
}

// eachWrongDate runs a test with one wrong Date, in each of the first requests that a
// daemon sends once it is armed.
func eachWrongDate(t *testing.T, first func() task.Task, test func(w *world, d *sim.Daemon, arm func())) {
	for name, fault := range wrongDates() {
		for n := range 8 {
			for _, known := range []bool{true, false} {
				play(t, fmt.Sprintf("%s, request %d, time known %v", name, n, known), first(), func(w *world) {
					strike := &onRequest{n: n}
					d := w.start(steady("struck"), strike.fault(fault))
					if known {
						w.ok(d.Sync(w.ctx))
					}
					test(w, d, func() { strike.armed = true })
				})
			}
		}
	}
}

// One answer with a wrong Date, or none, does not make a live claim look stale.
func TestOneWrongDateOverridesNothing(t *testing.T) {
	eachWrongDate(t, openTask, func(w *world, rival *sim.Daemon, arm func()) {
		holder := w.start(steady("holder"))
		c := w.claim(holder, "Sandman")
		time.Sleep(time.Until(c.ExpiresAt()) - 2*time.Minute)
		arm()
		for range 4 {
			w.deny(rival, "Oracle", claim.CodeHeld)
			w.sweeps(rival, false)
		}
		w.shows(task.InProgress, "Sandman", string(c.ID))
		w.held(holder)
		// Once it is stale it can be had.
		time.Sleep(time.Until(c.StaleAt) + 2*time.Second)
		w.claim(rival, "Oracle")
	})
}

// One answer with a wrong Date does not get into what is written.
func TestOneWrongDateIsNotWritten(t *testing.T) {
	eachWrongDate(t, openTask, func(w *world, d *sim.Daemon, arm func()) {
		arm()
		now := time.Now()
		c := w.claim(d, "Sandman")
		written := w.Page(page).ClaimedAt
		if off := written.Sub(now.Truncate(time.Minute)); off < 0 || off > time.Minute {
			w.Errorf("claimed_at is %v, off by %v", written, off)
		}
		if c.ClaimedAt.Sub(now).Abs() > 5*time.Second {
			w.Errorf("the claim began at %v, want about %v", c.ClaimedAt, now)
		}
		w.honoured(d)
		time.Sleep(20 * time.Minute)
		w.renew(d, c)
		w.honoured(d)
	})
}

// One answer with a wrong Date ends no claim that is renewed, finished or looked after.
func TestOneWrongDateLosesNothing(t *testing.T) {
	for _, after := range []time.Duration{16 * time.Minute, 29*time.Minute + 50*time.Second, 30*time.Minute + 5*time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			eachWrongDate(t, openTask, func(w *world, d *sim.Daemon, arm func()) {
				rival := w.start(steady("rival"))
				c := w.claim(d, "Sandman")
				time.Sleep(after)
				arm()
				if _, err := d.Renew(w.ctx, c.ID); err != nil {
					w.Fatalf("renewal: %v", err)
				}
				w.honoured(d)
				w.deny(rival, "Oracle", claim.CodeHeld)
				w.ok(d.Guard(w.ctx, c.ID, nil))
				time.Sleep(20 * time.Minute)
				done, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
				if err != nil || done.Ending != claim.EndCompleted {
					w.Errorf("completed as %q, %v", done.Ending, err)
				}
			})
		})
	}
}

// A holder under a late claim gets its grace, whatever one answer to the one who
// withdraws it, or to itself, says that the time is.
func TestOneWrongDateCutsNoGraceShort(t *testing.T) {
	for name, fault := range wrongDates() {
		for n := range 8 {
			for _, whose := range []string{"the writer", "the holder"} {
				play(t, fmt.Sprintf("%s, request %d of %s", name, n, whose), openTask(), func(w *world) {
					strikes := map[string]*onRequest{"the writer": {n: -1}, "the holder": {n: -1}}
					strikes[whose].n = n
					other := w.daemon("b", strikes["the writer"].fault(fault), sim.InTurn(sim.Claims, sim.Late(7*time.Second)))
					d := w.daemon("a", strikes["the holder"].fault(fault))
					granted := w.race(entrant{daemon: other, agent: "Oracle"}, entrant{daemon: d, agent: "Sandman", after: time.Millisecond})
					if len(granted) != 1 || granted[0].Agent != "Sandman" {
						w.Fatalf("granted %+v, want Sandman's claim", granted)
					}
					strikes[whose].armed = true
					third := w.daemon("c")
					for range 40 { // the holder's look comes late
						_, err := other.Sighted(w.ctx, w.Page(page).Token)
						w.ok(err)
						w.due(other)
						w.deny(third, "Hypnos", claim.CodeHeld)
						time.Sleep(time.Second)
					}
					w.sync(3*time.Minute, d, other)
					w.held(d)
					w.shows(task.InProgress, "Sandman", string(granted[0].ID))
					w.none(other)
				})
			}
		}
	}
}

// While no answer has a Date, nothing that looks stale is taken from anybody, not even
// when the local clock is set forward, and no lease begins. What is held can be finished.
func TestWithoutDates(t *testing.T) {
	for _, skew := range []time.Duration{0, 3 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			inWorld(t, openTask(), func(w *world) {
				holder := w.start(steady("holder"))
				rival := w.start(skewed("rival", skew), sim.NoDate)
				c := w.claim(holder, "Sandman")
				for range 5 {
					denied := w.deny(rival, "Oracle", claim.CodeHeld)
					if skew > 0 && !strings.Contains(denied.Detail, "do not agree on the time") {
						w.Errorf("%q does not say why a stale claim is not overridden", denied.Detail)
					}
					w.sweeps(rival, false)
					rival.Store.SetSkew(rival.Store.Skew() + time.Hour)
				}
				w.finish(holder, c, claim.EndReleased)
				if denied := w.deny(rival, "Oracle", claim.CodeNotionUnavailable); !strings.Contains(denied.Detail, "do not agree on the time") {
					w.Errorf("%q does not say why nothing is claimed", denied.Detail)
				}
				w.shows(task.Open, "", "")
			})
			inWorld(t, openTask(), func(w *world) {
				dated := true
				d := w.start(steady("d"), sim.On(func(task.ID, *claim.Write) bool { return !dated }, sim.NoDate))
				c := w.claim(d, "Sandman")
				dated = false
				d.Store.SetSkew(skew)
				time.Sleep(16 * time.Minute)
				if _, err := d.Renew(w.ctx, c.ID); err == nil {
					w.Error("renewed at a time that is not known")
				}
				if skew > 0 {
					return // by the local clock the lease is over, and has to be renewed first
				}
				w.finish(d, c, claim.EndCompleted)
				w.shows(task.Completed, "Sandman", "done "+string(c.ID)+" "+c.Agent)
			})
		})
	}
}

// A jump of Notion's own clock, or of a daemon's idea of it, is believed once two
// answers agree: then claims are stale, and made, by the new time.
func TestAJumpIsConfirmed(t *testing.T) {
	inWorld(t, staleTask(), func(w *world) {
		d := w.start(skewed("slow", -24*time.Hour)) // by its own clock, the claim is of tomorrow
		c := w.claim(d, "Oracle")
		if got := requests(d)[:2]; got[0] != sim.Reads || got[1] != sim.Reads {
			w.Errorf("requests begin with %v, want two reads", got)
		}
		if time.Until(c.ClaimedAt).Abs() > 10*time.Second {
			w.Errorf("the claim began at %v, want about %v", c.ClaimedAt, time.Now())
		}
	})
}

// A clock that is set two days ahead makes nobody forget a write that may arrive yet:
// only what an answer says of the time does.
func TestClockJumpsWhileAWriteIsWatchedFor(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(10*time.Minute)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		w.marked(d, claim.Unseen)
		d.Store.SetSkew(48 * time.Hour)
		w.due(d)
		w.marked(d, claim.Unseen)
		time.Sleep(10 * time.Minute)
		w.sync(graceful, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// A clock that is set two days ahead while Notion does not answer puts nothing off for two days:
// neither a withdrawal, whatever its next step, nor a finish. And no grace is cut short.
func TestClockJumpsWhileNotionIsAway(t *testing.T) {
	for name, restart := range map[string]bool{"": false, ", and the daemon is started anew": true} {
		for after, state := range map[time.Duration]claim.MarkState{0: claim.Abandoned, 5 * time.Second: claim.Voided, time.Minute: claim.Clearing} {
			play(t, fmt.Sprint(state, name), openTask(), func(w *world) {
				away := false
				d := w.daemon("a", sim.Outage(func() bool { return away }),
					sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)),
					sim.InTurn(sim.Voidings, sim.Fails(503, false)),
					sim.InTurn(sim.Openings, sim.Fails(503, false)))
				w.deny(d, "Sandman", claim.CodeNotionUnavailable)
				for range int(after / time.Second) {
					time.Sleep(time.Second)
					_, _ = d.RunDue(w.ctx)
				}
				w.marked(d, state)
				w.losesItsWay(d, &away, restart)
				w.shows(task.Open, "", "")
				w.none(d)
				w.graced(d)

				c := w.claim(d, "Oracle")
				away = true
				w.accepted(d, c, claim.EndCompleted)
				w.losesItsWay(d, &away, restart)
				w.finished(c, task.Completed)
			})
		}
	}
}

// losesItsWay has Notion be away, and d's clock be two days ahead, for ten seconds. Then ten minutes
// pass.
func (w *world) losesItsWay(d *sim.Daemon, away *bool, restart bool) {
	w.Helper()
	*away = true
	d.Store.SetSkew(48 * time.Hour)
	for range 10 {
		time.Sleep(time.Second)
		_, _ = d.RunDue(w.ctx)
	}
	*away = false
	d.Store.SetSkew(0)
	if restart {
		w.ok(d.Restart(w.ctx))
	}
	w.sync(10*time.Minute, d)
}

// A void mark that is looked at too early, because the clock jumped ahead, is not taken off early
// if that look fails.
func TestFailureWhileTheClockIsAhead(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		var d *sim.Daemon
		ahead := false
		d = w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)), sim.Outage(func() bool {
			defer func() { ahead = false }()
			if ahead {
				d.Store.SetSkew(0)
			}
			return ahead
		}))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		time.Sleep(time.Second)
		ahead = true
		d.Store.SetSkew(time.Minute)
		if _, err := d.RunDue(w.ctx); err == nil {
			w.Fatal("nothing was looked at")
		}
		w.sync(5*time.Minute, d)
		w.shows(task.Open, "", "")
		w.graced(d)
	})
}

// What was put off while the journal refused to have it put forward is put forward later.
func TestJournalAwayWhileTheClockIsSetRight(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		away := false
		d := w.daemon("a", sim.Outage(func() bool { return away }), sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		away = true
		d.Store.SetSkew(48 * time.Hour)
		_, _ = d.RunDue(w.ctx)
		d.Store.SetSkew(0)
		away = false
		d.Ledger.Break(errors.New("the disk is full"))
		if _, err := d.RunDue(w.ctx); err == nil {
			w.Error("nothing was put forward")
		}
		d.Ledger.Break(nil)
		w.sync(5*time.Minute, d)
		w.shows(task.Open, "", "")
		w.none(d)
	})
}

// A withdrawal of an attempt that was begun while the clock was ahead is retried as seldom as any.
func TestRetriesAfterTheClockWasAhead(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		tries := -1
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Slow(0, 5*time.Second)), sim.Outage(func() bool {
			if tries >= 0 {
				tries++
			}
			return tries > 0
		}))
		d.Store.SetSkew(48 * time.Hour)
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		tries = 0
		for range 3600 {
			time.Sleep(time.Second)
			_, _ = d.RunDue(w.ctx)
		}
		if tries == 0 || tries > 30 {
			w.Errorf("%d tries in an hour", tries)
		}
	})
}

// One sign of life while the clock is wrong keeps a claim for one more lease, and no longer.
func TestSignOfLifeWhileTheClockIsAhead(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d, other := w.daemon("a"), w.daemon("b")
		w.claim(d, "Sandman")
		time.Sleep(time.Minute)
		d.Store.SetSkew(12 * time.Hour)
		_, _ = d.Renew(w.ctx, w.only(d).ID)
		d.Store.SetSkew(0)
		w.sync(2*time.Hour, d)
		w.claim(other, "Oracle")
	})
}
