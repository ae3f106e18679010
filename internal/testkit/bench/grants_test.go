package bench_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
)

// counts are the numbers of concurrent agents.
var counts = []int{1, 4, 16, 64}

// BenchmarkGrants lets agents claim tasks again and again, without completing them. A refusal is a
// request that got no task.
func BenchmarkGrants(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) { benchmarkClaims(b, n, false, *length, alone()...) })
	}
}

// BenchmarkLives lets agents claim and complete tasks again and again. The times include both.
func BenchmarkLives(b *testing.B) {
	for _, n := range counts {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) { benchmarkClaims(b, n, true, *length, alone()...) })
	}
}

func benchmarkClaims(b *testing.B, workers int, complete bool, long time.Duration, settings ...string) {
	notion := startBoard(b)
	d := startDaemon(b, notion, settings...)
	agents := make([]*client.Client, workers)
	for i := range agents {
		agents[i] = d.agent()
	}
	benchmarkAgents(b, notion, []*daemon{d}, agents, complete, long)
}

// benchmarkAgents measures agents of daemons.
func benchmarkAgents(b *testing.B, notion *board, daemons []*daemon, agents []*client.Client, complete bool, long time.Duration) {
	cpu := func() (used time.Duration) {
		for _, d := range daemons {
			d.delivered(b)
			used += d.cpu()
		}
		return used
	}
	used := cpu()
	notion.requests(b)
	served := notion.cpu()

	grants := newGrants()
	notion.far(b)
	r := together(b, len(agents), long, func(i int) error {
		name := worker(i)
		c, err := agents[i].Claim(b.Context(), api.ClaimRequest{Agent: name}, "")
		if err != nil {
			return refusal(err)
		}
		grants.add(string(c.Task.ID))
		if complete {
			_, err = agents[i].Complete(b.Context(), string(c.ID), api.CompleteRequest{Agent: name, Summary: "Done."}, "")
		}
		return err
	})
	notion.near(b)
	used, served = cpu()-used, notion.cpu()-served
	requests := notion.requests(b)

	n := len(r.took)
	r.report(b)
	figures.put(b, float64(n)/r.elapsed.Seconds(), "grants/s")
	figures.put(b, float64(r.refused), "refusals")
	figures.put(b, per(used, n)/float64(time.Millisecond), "cpu-ms/grant")
	figures.put(b, per(requests.all, n), "requests/grant")
	figures.put(b, per(requests.pages, n), "page-requests/grant")
	figures.put(b, per(served, requests.all)/float64(time.Millisecond), "notion-cpu-ms/request")
	if twice := grants.twice(); twice > 0 {
		b.Errorf("%d tasks were granted twice", twice)
	}
}

// worker returns the name of an agent.
func worker(i int) string { return fmt.Sprintf("worker-%02d", i) }

// refusal returns errRefused for a refusal of the daemon, else err.
func refusal(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == 409 {
		return errRefused
	}
	return err
}

// grants counts how often each task was granted.
type grants struct {
	mu sync.Mutex
	n  map[string]int
}

func newGrants() *grants { return &grants{n: make(map[string]int)} }

func (g *grants) add(task string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n[task]++
}

// twice returns how many grants were of tasks granted before.
func (g *grants) twice() int {
	twice := 0
	for _, n := range g.n {
		twice += n - 1
	}
	return twice
}
