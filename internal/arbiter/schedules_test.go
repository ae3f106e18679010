package arbiter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/task"
)

// explored runs every order in which the reads and writes of n members can take effect, for a
// fresh and for a stale task, and returns how many there were, and what went wrong.
func explored(t *testing.T, n int, c *cluster) (schedules int, failures []string) {
	t.Helper()
	p := policy()
	p.Timeout = time.Hour
	for s := range claimtest.Schedules(n, p) {
		schedules++
		for _, stale := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				first := task.Task{ID: taskOne, Title: "Mend the roof", Status: task.Open}
				if stale {
					first.Status, first.ClaimedBy, first.ClaimedAt = task.InProgress, "Ghost", time.Now().Add(-2*time.Hour)
					first.Token = string(claim.NewID(first.ClaimedAt))
				}
				granted, page := s.Run(t.Context(), first, p, c.join)
				switch {
				case len(granted) != 1:
					failures = append(failures, fmt.Sprintf("stale %v: %v: %d were granted it, want 1", stale, s, len(granted)))
				case page.Token != string(granted[0].ID) || granted[0].Fence <= 0:
					failures = append(failures, fmt.Sprintf("stale %v: %v: the page shows %s's claim, %s was granted it, with fence %d", stale, s, page.ClaimedBy, granted[0].Agent, granted[0].Fence))
				}
			})
		}
	}
	return schedules, failures
}

// Without a settle wait, there are more orders in which members come; in each of them, one is
// granted the task. With a table of their own each, it is two in some.
func TestEverySchedule(t *testing.T) {
	most := 3
	if *long {
		most = 4
	}
	for n := 1; n <= most; n++ {
		schedules, failures := explored(t, n, new(cluster))
		for _, f := range failures {
			t.Error(f)
		}
		t.Logf("%d members: %d schedules", n, schedules)
	}
	apart := &cluster{table: func(*claimsim.DaemonOptions, *arbitersim.Table) arbiter.Table { return arbitersim.NewTable() }}
	if _, failures := explored(t, 2, apart); len(failures) == 0 {
		t.Error("members decide each for itself, and yet each schedule has one winner")
	}
}
