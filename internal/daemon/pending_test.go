package daemon_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/notion/emulator"
)

// A finish is accepted while Notion is away; the answer says that it is pending, and what is
// unknown. Once the lease is over, that is whether another agent has the task: if so, the finish is
// dropped when Notion is back, and the agent is told.
func TestFinishWhileNotionIsAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		after         time.Duration // after the claim
		taken         bool
		unknown       string
		outcome       claim.Ending
		work, trigger string
	}{
		{"with a live lease", time.Minute, false, "once the lease is over", claim.EndCompleted, "completed: Sandman", ""},
		{"after the lease", 4 * time.Minute, false, "the lease is over", claim.EndCompleted, "completed: Sandman", ""},
		{"after another agent got the task", 6 * time.Minute, true, "whether another agent", claim.EndLost, "orphaned: Sandman", "claim_lost work from Oracle"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				settings := func(c *config.Config) { c.Claim.Timeout, c.Schedule.Sweep = 3*time.Minute, "@every 100h" }
				a, lineA := w.onLine("a", settings)
				b, _ := w.onLine("b", settings)
				cl := a.mustClaim("Sandman", id)
				back := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest, Match: func(r *http.Request, _ []byte) bool { return lineA.sends(r) }})
				time.Sleep(tt.after)
				if tt.taken {
					b.mustClaim("Oracle", id)
				}
				got, err := a.Complete(w.Context(), string(cl.ID), api.CompleteRequest{Agent: "Sandman", Summary: "all of it"}, "")
				if err != nil || got.State != claim.Finishing || !got.Pending || !strings.Contains(got.Unknown, tt.unknown) {
					t.Errorf("answered %+v, %v; want it pending, and not known %q", got, err, tt.unknown)
				}
				if held, err := a.Claims(w.Context(), "Sandman"); err != nil || len(held.Claims) != 1 || !held.Claims[0].Pending {
					t.Errorf("claims %+v, %v; want the one pending", held, err)
				}
				back()
				time.Sleep(2 * time.Minute)
				end, err := a.Lookup(w.Context(), string(cl.ID), "Sandman")
				if err != nil || end.Pending || end.Unknown != "" || end.Outcome != tt.outcome {
					t.Errorf("ended as %+v, %v; want %s", end, err, tt.outcome)
				}
				if work := w.work(); len(work) != 1 || work[0] != tt.work {
					t.Errorf("task log %v, want %s", work, tt.work)
				}
				told := ""
				got2, err := a.Poll(w.Context(), "Sandman", api.PollRequest{}, "")
				for _, trigger := range got2.Triggers {
					if trigger.Type == inbox.ClaimLost {
						told += string(trigger.Type) + " " + trigger.Task.Title + " from " + trigger.From
					}
				}
				if err != nil || told != tt.trigger {
					t.Errorf("told %q, %v; want %q", told, err, tt.trigger)
				}
				want := "COMPLETED Sandman"
				if tt.taken {
					want = "IN_PROGRESS Oracle"
				}
				if p := w.page(id); p.Select("status")+" "+p.Text("claimed_by") != want {
					t.Errorf("the page shows %s %s, want %s", p.Select("status"), p.Text("claimed_by"), want)
				}
			})
		})
	}
}
