package claim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// A clock that is set two days ahead makes nobody forget a write that may arrive yet:
// only what an answer says of the time does.
func TestClockJumpsWhileAWriteIsWatchedFor(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", sim.InTurn(sim.Claims, sim.Late(10*time.Minute)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if got := w.onlyMark(d).State; got != claim.Unseen {
			t.Fatalf("the attempt is %s, want it unseen", got)
		}
		d.Store.SetSkew(48 * time.Hour)
		_, err := d.RunDue(w.ctx)
		w.ok(err)
		if got := w.onlyMark(d).State; got != claim.Unseen {
			t.Errorf("the attempt is %s", got)
		}
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
			t.Run(fmt.Sprint(state, name), func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
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
					if got := w.onlyMark(d).State; got != state {
						t.Fatalf("the mark is %s, want %s", got, state)
					}
					w.losesItsWay(d, &away, restart)
					w.shows(task.Open, "", "")
					w.none(d)
					w.graced(d)

					c := w.claim(d, "Oracle")
					away = true
					_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
					w.ok(err)
					w.losesItsWay(d, &away, restart)
					w.finished(c, task.Completed)
				})
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
			t.Fatal("nothing was looked at")
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
			t.Error("nothing was put forward")
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
			t.Errorf("%d tries in an hour", tries)
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
