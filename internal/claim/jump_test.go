package claim_test

import (
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
