package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// automation keeps a card as it wants it: a few seconds after the card looks different, it writes
// that again. It stops at the end of the test.
func (w *world) automation(id string, wants shown, properties func() map[string]any) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-time.After(5 * time.Second):
				if got := show(w.page(id)); got.Status != wants.Status || got.ClaimedBy != wants.ClaimedBy {
					w.edit(id, properties())
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// writes returns how many writes of the daemons to a page were answered since the last reset.
func (w *world) writes(id string) (n int) {
	for _, r := range w.notion.Requests() {
		if r.Method == "PATCH" && strings.HasSuffix(r.Path, id) {
			n++
		}
	}
	return n
}

// An automation that undoes what dibs does to a card meets it three times, and then dibs leaves the
// card alone for an hour and says so. What an agent does with its claim is written all the same.
func TestAutomationThatUndoesWhatDibsDoes(t *testing.T) {
	t.Parallel()
	for name, tt := range fewOf(1, map[string]struct {
		began func() time.Time // of the lease that the automation restores
		token bool             // it restores the token, too
	}{
		"a claim that is over": {time.Now, true},
		"a stale claim":        {func() time.Time { return time.Now().Add(-time.Hour) }, false},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("Alpha", nil)
				n := w.daemon(nil)
				cl := n.mustClaim("Sandman", id)
				mustDo(w, func() error { _, err := n.Release(w.Context(), string(cl.ID), api.StopRequest{}, ""); return err }())
				token := ""
				if tt.token {
					token = string(cl.ID)
				}
				w.notion.ResetRequests()
				stop := w.automation(id, shown{Status: "IN_PROGRESS", ClaimedBy: "Sandman"}, func() map[string]any {
					return map[string]any{
						"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Sandman"),
						"claimed_at": date(tt.began()), "claim_token": text("rich_text", token),
					}
				})
				time.Sleep(time.Hour)
				// An answer is a mark, and the write that takes it off.
				if got := w.writes(id); got != 6 {
					w.Errorf("%d writes in an hour, want 6", got)
				}
				says := func() bool { return strings.Contains(strings.Join(n.status().Warnings, "\n"), "left alone") }
				if got := n.task(id); !says() || !strings.Contains(got.Reason, "left alone") {
					w.Errorf("the status warns of %q, and of the task: %s", n.status().Warnings, got.Reason)
				}
				stop()
				w.edit(id, map[string]any{
					"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
				})
				n.sync()
				mustDo(w, n.complete(n.mustClaim("Oracle", id)))
				if got := w.page(id).Select("status"); got != "COMPLETED" {
					w.Errorf("once it is done, the card is %s", got)
				}
				time.Sleep(10 * time.Minute)
				if says() {
					w.Errorf("after the hour: %q", n.status().Warnings)
				}
			})
		})
	}
}

// An automation that takes every claim of a waiting agent off its card: the claims end, and the
// card goes round no faster than leases do.
func TestAutomationAgainstEveryClaim(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("Alpha", nil)
		n := w.daemon(nil)
		stop := w.automation(id, shown{Status: "OPEN", ClaimedBy: ""}, func() map[string]any {
			return map[string]any{"status": option("status", string(task.Open))}
		})
		defer stop()
		granted := 0
		for end := time.Now().Add(time.Hour); time.Now().Before(end); {
			if _, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, ""); err == nil {
				granted++
			}
			time.Sleep(30 * time.Second)
		}
		if got := w.writes(id); granted < 4 || granted > 8 || got > 2*granted+4 {
			w.Errorf("%d grants and %d writes in an hour", granted, got)
		}
		if held, err := n.Claims(w.Context(), ""); err != nil || len(held.Claims) > 0 {
			w.Errorf("held all the same: %+v, %v", held, err)
		}
	})
}
