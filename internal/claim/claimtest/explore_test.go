package claimtest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// The points at which the three requests of an attempt take effect.
const (
	pointRead = iota
	pointWrite
	pointVerify
)

// step is one point of one claimer.
type step struct{ claimer, point int }

func (s step) String() string { return fmt.Sprintf("%c%d", "RWV"[s.point], s.claimer) }

// Schedule is an order in which the reads, the writes and the verifying reads of several
// claimers, each in its own daemon, take effect, with times that bring the order about.
type Schedule struct {
	steps []step
	at    []time.Duration // of each step, from the beginning
}

// String lists the steps: R1 is the read of claimer 1, W its write, V its
// verifying read.
func (s Schedule) String() string {
	names := make([]string, len(s.steps))
	for i, step := range s.steps {
		names[i] = step.String()
	}
	return strings.Join(names, " ")
}

// Schedules returns every order in which the points of n claimers can follow each other under
// p: a write comes at most the write window after its read, and a verifying read at least the
// settle wait after its write. Claimers are numbered in the order of their reads, since any
// other numbering gives the same schedule. A claimer whose read comes after a write finds the
// task held and stops.
func Schedules(n int, p claim.Policy) iter.Seq[Schedule] {
	return func(yield func(Schedule) bool) {
		x := explorer{n: n, policy: p, next: make([]int, n), yield: yield}
		x.explore()
	}
}

// explorer walks the tree of schedules.
type explorer struct {
	n      int
	policy claim.Policy
	yield  func(Schedule) bool

	steps   []step
	next    []int // the next point of each claimer
	started int
	written bool
}

// explore yields all schedules that begin with x.steps, and reports whether to go on.
func (x *explorer) explore() bool {
	at, possible := x.times()
	if !possible {
		return true
	}
	complete := x.started == x.n
	for c := range x.started {
		if x.next[c] > pointVerify {
			continue
		}
		complete = false
		if !x.take(step{c, x.next[c]}) {
			return false
		}
	}
	if complete {
		return x.yield(Schedule{steps: slices.Clone(x.steps), at: at})
	}
	return x.started == x.n || x.take(step{x.started, pointRead})
}

// take explores the schedules that continue with s.
func (x *explorer) take(s step) bool {
	before := *x
	next := x.next[s.claimer]
	x.steps = append(x.steps, s)
	x.next[s.claimer] = s.point + 1
	switch {
	case s.point == pointWrite:
		x.written = true
	case s.point == pointRead:
		x.started++
		if x.written {
			x.next[s.claimer] = pointVerify + 1
		}
	}
	more := x.explore()
	x.steps, x.started, x.written = before.steps, before.started, before.written
	x.next[s.claimer] = next
	return more
}

// times returns the earliest times at which the steps can happen in this order; false if the
// order is impossible.
func (x *explorer) times() ([]time.Duration, bool) {
	at := make([]time.Duration, len(x.steps))
	points := make(map[step]int)
	for i, s := range x.steps {
		points[s] = i
	}
	// Each round moves times to as late as the others require. Times that have not settled
	// after as many rounds as there are steps never will.
	for range len(x.steps) + 1 {
		settled := true
		atLeast := func(i int, t time.Duration) {
			if at[i] < t {
				at[i], settled = t, false
			}
		}
		for i, s := range x.steps {
			if i > 0 {
				atLeast(i, at[i-1]+time.Millisecond)
			}
			switch s.point {
			case pointWrite:
				atLeast(points[step{s.claimer, pointRead}], at[i]-x.policy.WriteWindow)
			case pointVerify:
				atLeast(i, at[points[step{s.claimer, pointWrite}]]+x.policy.Settle)
			}
		}
		if settled {
			return at, true
		}
	}
	return nil, false
}

// Run lets real claimers race for the task by the schedule, under the policy that it was made
// for. It returns the granted claims and what the page shows afterwards. Each mutate function
// may change the configuration of each daemon.
func (s Schedule) Run(ctx context.Context, first task.Task, p claim.Policy, mutate ...func(*sim.Register, *sim.DaemonOptions)) (granted []claim.Hold, page task.Task) {
	register := sim.NewRegister(first)
	points := make(map[step]time.Duration)
	claimers := 0
	for i, step := range s.steps {
		points[step] = s.at[i]
		claimers = max(claimers, step.claimer+1)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range claimers {
		read, write, verify := points[step{c, pointRead}], points[step{c, pointWrite}], points[step{c, pointVerify}]
		// Reads are sent at the moment of their effect, and answers take no time.
		before := []time.Duration{0, write - read, verify - write - p.Settle}
		o := sim.DaemonOptions{Policy: p, StoreOptions: sim.StoreOptions{
			Name: fmt.Sprint(c),
			Latency: func(*rand.Rand) sim.Delay {
				d := sim.Delay{Before: before[0]}
				before = before[1:]
				return d
			},
		}}
		for _, f := range mutate {
			f(register, &o)
		}
		d := register.Daemon(o)
		wg.Go(func() {
			defer d.Close()
			time.Sleep(read)
			if cl, err := d.Claim(ctx, claim.Request{Agent: fmt.Sprintf("agent %d", c), Task: first}); err == nil {
				mu.Lock()
				defer mu.Unlock()
				granted = append(granted, cl)
			}
		})
	}
	wg.Wait()
	return granted, register.Page(first.ID)
}

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
	for s := range Schedules(n, p) {
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
	case testkit.InFull():
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

// Timings drawn at random bring about no order that is not among the schedules,
// and all those that are.
func TestSchedulesOfThreeAreAll(t *testing.T) {
	p := sim.Policy()
	known := make(map[string]bool)
	for s := range Schedules(3, p) {
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
