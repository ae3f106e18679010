package claimtest_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimtest"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	gocmp "github.com/google/go-cmp/cmp"
)

var long = flag.Bool("long", false, "explore more schedules and run 100,000 races: takes its time")

// TestMain lets garbage lie for longer than usual: a race makes much, and little of it lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(testkit.RunInMemory(m))
}

const page = task.ID("11111111-1111-1111-1111-111111111111")

var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func openTask() task.Task { return task.Task{ID: page, Title: "Mend the roof", Status: task.Open} }

func staleTask() task.Task {
	t := openTask()
	t.Status, t.ClaimedBy, t.ClaimedAt = task.InProgress, "Ghost", bubbleStart.Add(-2*time.Hour)
	t.Token = string(claim.NewID(t.ClaimedAt))
	return t
}

// explored runs every schedule of n claimers for a fresh and for a stale task,
// and returns how many there were, and what went wrong in which.
func explored(t *testing.T, n int, p claim.Policy) (schedules int, failures []string) {
	t.Helper()
	for s := range claimtest.Schedules(n, p) {
		schedules++
		for name, first := range map[string]task.Task{"fresh": openTask(), "stale": staleTask()} {
			synctest.Test(t, func(t *testing.T) {
				granted, page := s.Run(t.Context(), first, p)
				switch {
				case len(granted) != 1:
					failures = append(failures, fmt.Sprintf("%s task: %v: %d were granted it, want 1", name, s, len(granted)))
				case page.Token != string(granted[0].ID) || page.ClaimedBy != granted[0].Agent:
					failures = append(failures, fmt.Sprintf("%s task: %v: the page shows %s's claim, %s was granted it", name, s, page.ClaimedBy, granted[0].Agent))
				}
			})
		}
	}
	return schedules, failures
}

// In every order that the write window and the settle wait allow, one claimer
// is granted the task.
func TestEverySchedule(t *testing.T) {
	most := 4
	switch {
	case *long:
		most = 5
	case testing.Short():
		most = 3
	}
	for n := 1; n <= most; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			schedules, failures := explored(t, n, sim.Policy())
			for _, f := range failures {
				t.Error(f)
			}
			t.Logf("%d claimers: %d schedules", n, schedules)
		})
	}
}

// With the settle wait just longer than the window there are more orders, and
// still no two winners.
func TestEveryScheduleAtTheEdge(t *testing.T) {
	p := sim.Policy()
	p.Settle = p.WriteWindow + 1
	for n := 1; n <= 3; n++ {
		_, failures := explored(t, n, p)
		for _, f := range failures {
			t.Error(f)
		}
	}
}

func TestSchedulesOfTwo(t *testing.T) {
	want := []string{
		"R0 R1 W0 W1 V0 V1",
		"R0 R1 W0 W1 V1 V0",
		"R0 R1 W1 W0 V0 V1",
		"R0 R1 W1 W0 V1 V0",
		"R0 W0 R1 V0",
		"R0 W0 V0 R1",
	}
	var got []string
	for s := range claimtest.Schedules(2, sim.Policy()) {
		got = append(got, s.String())
	}
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("schedules (-want +got):\n%s", diff)
	}
}

// Timings drawn at random bring about no order that is not among the schedules,
// and all those that are.
func TestSchedulesOfThreeAreAll(t *testing.T) {
	p := sim.Policy()
	known := make(map[string]bool)
	for s := range claimtest.Schedules(3, p) {
		known[s.String()] = false
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		order := randomOrder(r, 3, p)
		if _, ok := known[order]; !ok {
			t.Fatalf("%s can happen, and is not among the schedules", order)
		}
		known[order] = true
	}
	for order, seen := range known {
		if !seen {
			t.Errorf("%s is among the schedules, and never happened", order)
		}
	}
}

// randomOrder draws when n claimers take effect and returns their order, in the
// notation of schedules.
func randomOrder(r *rand.Rand, n int, p claim.Policy) string {
	type event struct {
		at      time.Duration
		point   string
		claimer int
	}
	draw := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most))) }
	var events []event
	firstWrite := time.Duration(math.MaxInt64)
	reads := make([]time.Duration, n)
	for c := range n {
		reads[c] = draw(8 * time.Second)
	}
	slices.Sort(reads)
	for c, read := range reads {
		events = append(events, event{read, "R", c})
		if read > firstWrite {
			continue
		}
		write := read + draw(p.WriteWindow)
		verify := write + p.Settle + draw(p.Settle)
		firstWrite = min(firstWrite, write)
		events = append(events, event{write, "W", c}, event{verify, "V", c})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var names []string
	for _, e := range events {
		names = append(names, fmt.Sprint(e.point, e.claimer))
	}
	return strings.Join(names, " ")
}
