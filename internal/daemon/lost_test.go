package daemon_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/testkit/pgtest"
)

// A standby that lagged takes over while the members run: they say what may be lost, grant nothing
// until lost writes have arrived and the board was read, and go on. What was claimed in the time that
// is lost is a stranger's; a task made under a key stays one page.
func TestStandbyThatLagged(t *testing.T) {
	s := pgtest.Run(t)
	inWorld(t, 0, func(w *world) {
		kept, lost, open := w.add("kept", nil), w.add("lost", nil), w.add("open", nil)
		all := w.members(s, "a b", nil)
		a, b := all[0], all[1]
		before := a.mustClaim("Trinity", kept)
		w.backUp(s)
		a.mustClaim("Sandman", lost)
		made := b.mustAdd(api.AddRequest{Title: "made"}, "once")
		time.Sleep(5 * time.Second) // both have seen the last transaction
		w.restore(s)

		var refused *api.Problem
		for range 100 { // until it is noticed, callers wait for the next leader
			_, err := b.claim("Oracle", open)
			if errors.As(err, &refused) && strings.Contains(refused.Detail, "set back") {
				break
			}
			time.Sleep(time.Second)
		}
		if refused == nil || refused.Code != api.Code(claim.CodeJournalUnavailable) || refused.RetryAfter == 0 || !strings.Contains(refused.Detail, "may be lost") {
			t.Fatalf("a claim after it: %+v; want that it is refused for a while", refused)
		}
		time.Sleep(70 * time.Second)
		for _, n := range all {
			if got := strings.Join(n.status().Warnings, "\n"); !strings.Contains(got, "set back") || !strings.Contains(got, "may be lost") {
				t.Errorf("the status warns %q", got)
			}
		}
		b.mustClaim("Oracle", open)
		if _, err := b.claim("Oracle", lost); code(err) != denied(claim.CodeHeld) {
			t.Errorf("what was claimed in the time that is lost: %v, want that it is held", err)
		}
		if err := b.complete(before); err != nil {
			t.Errorf("the end of what was claimed before: %v", err)
		}
		time.Sleep(3 * time.Minute) // what may have been sent before has arrived
		if again := b.mustAdd(api.AddRequest{Title: "made"}, "once"); again.ID != made.ID {
			t.Errorf("a task asked for again under its key is made as %s, want %s", again.ID, made.ID)
		}
		for _, n := range all {
			n.stop()
		}
	})
}
