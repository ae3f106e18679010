package claim_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// A clock that is set two days ahead makes nobody forget a write that may arrive yet:
// only what an answer says of the time does.
func TestClockJumpsWhileAWriteIsWatchedFor(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", claimsim.InTurn(claimsim.Claims, claimsim.Late(10*time.Minute)))
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

// What a lost claim left on its task is owed for a day by Notion's clock, too.
func TestClockJumpsWhileALeaseLengthIsOwed(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		r := request("Sandman")
		r.Timeout = 2 * time.Hour
		_, err := d.Claim(w.ctx, r)
		w.ok(err)
		w.Edit(page, func(t *task.Task) { t.Status, t.ClaimedBy, t.Token, t.ClaimedAt = task.Cancelled, "", "", time.Time{} })
		w.sync(claimsim.SyncInterval, d)
		d.Store.SetSkew(48 * time.Hour)
		_, err = d.RunDue(w.ctx)
		w.ok(err)
		w.Edit(page, func(t *task.Task) { t.Status = task.Open })
		w.sync(time.Minute, d)
		if got := w.Page(page).Timeout; got != 0 {
			t.Errorf("the task has a lease of %v, want the one it had before", got)
		}
		w.none(d)
	})
}

// A clock that is set two days ahead while Notion does not answer puts nothing off for two days:
// neither a withdrawal, whatever its next step, nor a finish.
func TestClockJumpsWhileNotionIsAway(t *testing.T) {
	for name, restart := range map[string]bool{"and back": false, "and back, and the daemon is started anew": true} {
		for _, after := range []time.Duration{0, 20 * time.Second, 70 * time.Second} {
			t.Run(fmt.Sprint(name, ", after ", after), func(t *testing.T) {
				inWorld(t, openTask(), func(w *world) {
					away := false
					d := w.daemon("a", claimsim.Outage(func() bool { return away }),
						claimsim.InTurn(claimsim.Claims, claimsim.Slow(0, 5*time.Second)),
						claimsim.InTurn(claimsim.Voidings, claimsim.Fails(503, false)))
					w.deny(d, "Sandman", claim.CodeNotionUnavailable)
					w.passes(d, after, &away, restart)
					w.shows(task.Open, "", "")
					w.none(d)
					c := w.claim(d, "Oracle")
					away = true
					_, err := d.Finish(w.ctx, c.ID, claim.Finish{As: claim.EndCompleted})
					w.ok(err)
					w.passes(d, after, &away, restart)
					w.finished(c, task.Completed)
				})
			})
		}
	}
}

// passes has Notion go away for two minutes, and the daemon's clock be two days ahead meanwhile.
// Then both are as they were for ten minutes.
func (w *world) passes(d *claimsim.Daemon, after time.Duration, away *bool, restart bool) {
	w.Helper()
	if after > 0 {
		w.sync(after, d)
	}
	*away = true
	d.Store.SetSkew(48 * time.Hour)
	for range 12 {
		time.Sleep(10 * time.Second)
		_, _ = d.RunDue(w.ctx)
	}
	*away = false
	d.Store.SetSkew(0)
	if restart {
		w.ok(d.Restart(w.ctx))
	}
	w.sync(10*time.Minute, d)
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
