package report_test

import (
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/report"

	"github.com/google/go-cmp/cmp"
)

func TestSum(t *testing.T) {
	end := func(agent string, as claim.Ending, after, took time.Duration, said bool) claim.Hold {
		h := claim.Hold{Agent: agent, State: claim.Ended, Started: t0, Ending: as, Ended: t0.Add(after)}
		if said {
			h.Finish = &claim.Finish{As: claim.EndCompleted, At: t0.Add(took)}
		}
		return h
	}
	never := end("Sandman", claim.EndNotGranted, 0, 0, false)
	never.Started = time.Time{}
	ended := []claim.Hold{
		end("Sandman", claim.EndCompleted, time.Minute, time.Minute, true),
		end("Sandman", claim.EndReview, time.Minute, 3*time.Minute, true),
		end("Sandman", claim.EndFailed, time.Minute, 0, false), end("Sandman", claim.EndReleased, time.Minute, 0, false),
		never,
		end("Oracle", claim.EndLost, 0, 0, false), end("Oracle", claim.EndSwept, 24*time.Hour, 0, false), end("Oracle", claim.EndOverridden, 24*time.Hour, 0, false),
		end("Oracle", claim.EndLost, 24*time.Hour, 0, true), // it was done
		end("Ghost", claim.EndBlocked, 0, 0, false),
	}
	if diff := cmp.Diff([]report.Work{
		{Agent: "Oracle", Lost: 3}, {Agent: "Sandman", Completed: 2, Failed: 1, Took: []time.Duration{time.Minute, 3 * time.Minute}},
	}, report.Sum(ended)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
