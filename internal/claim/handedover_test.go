package claim_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// A mark whose date a person cleared on a card that is OPEN is an assignment, which may be
// claimed at any moment: nothing is written to it.
func TestMarkBecomesAnAssignment(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a", claimsim.InTurn(claimsim.Claims, claimsim.Slow(0, 5*time.Second)))
		w.deny(d, "Sandman", claim.CodeNotionUnavailable)
		if got := w.only(d).State; got != claim.Voided {
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

// A name that a person puts on a card that was completed, and opens again, is that person's,
// also where something is owed to the task.
func TestLeaseLengthIsOwedToAnAssignment(t *testing.T) {
	inWorld(t, openTask(), func(w *world) {
		d := w.daemon("a")
		r := request("Sandman")
		r.Timeout = 2 * time.Hour
		c, err := d.Claim(w.ctx, r)
		w.ok(err)
		w.Edit(page, func(t *task.Task) { t.Status, t.ClaimedBy = task.Cancelled, "" })
		w.sync(claimsim.SyncInterval, d)
		w.Edit(page, func(t *task.Task) {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.Open, "Maria", time.Time{}, "done "+string(c.ID)
		})
		want := w.Page(page)
		w.sync(graceful, d)
		if diff := cmp.Diff(want, w.Page(page)); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
	})
}
