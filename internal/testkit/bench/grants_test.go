package bench_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit/pgtest"
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
		c, err := client.Do(b.Context(), agents[i], api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: name}))
		if err != nil {
			return refusal(err)
		}
		grants.add(string(c.Task.ID))
		if complete {
			_, err = client.Do(b.Context(), agents[i], api.OpComplete, api.On(string(c.ID), "", api.CompleteRequest{Agent: name, Summary: "Done."}))
		}
		return err
	})
	notion.near(b)
	used, served = cpu()-used, notion.cpu()-served
	requests := notion.requests(b)

	n := len(r.took)
	r.report(b)
	b.ReportMetric(float64(n)/r.elapsed.Seconds(), "grants/s")
	b.ReportMetric(float64(r.refused), "refusals")
	b.ReportMetric(per(used, n)/float64(time.Millisecond), "cpu-ms/grant")
	b.ReportMetric(per(requests.all, n), "requests/grant")
	b.ReportMetric(per(requests.pages, n), "page-requests/grant")
	b.ReportMetric(per(served, requests.all)/float64(time.Millisecond), "notion-cpu-ms/request")
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

// members are the cluster sizes for grants, idlers those for idle clusters.
var (
	members = []int{1, 2, 4}
	idlers  = []int{1, 4, 16}
)

// BenchmarkCluster lets agents of several daemons with one journal, in a PostgreSQL server on this
// machine, claim tasks again and again, without completing them. BenchmarkGrants does the same with
// one daemon and its own file.
func BenchmarkCluster(b *testing.B) {
	measure := func(daemons, agents int) {
		b.Run(fmt.Sprintf("daemons=%d/workers=%d", daemons, agents), func(b *testing.B) {
			notion := startBoard(b)
			all := startCluster(b, notion, daemons)
			clients := make([]*client.Client, agents)
			for i := range clients {
				clients[i] = all[i%daemons].agent()
			}
			benchmarkAgents(b, notion, all, clients, false, *length)
		})
	}
	measure(1, 1)
	for _, n := range members {
		measure(n, 64)
	}
}

// BenchmarkIdle measures the daemons of a cluster that is idle for a minute.
func BenchmarkIdle(b *testing.B) {
	for _, n := range idlers {
		b.Run(fmt.Sprintf("daemons=%d", n), func(b *testing.B) {
			notion := startBoard(b)
			startCluster(b, notion, n)
			notion.requests(b)
			b.ResetTimer()
			time.Sleep(time.Minute)
			b.ReportMetric(float64(notion.requests(b).all), "requests/min")
		})
	}
}

// startCluster starts a PostgreSQL server and n daemons with their journal there.
func startCluster(b *testing.B, notion *board, n int) (daemons []*daemon) {
	b.Helper()
	server := pgtest.Run(b, "fsync=on", "full_page_writes=on")
	for i := range n {
		daemons = append(daemons, startDaemon(b, notion, "DIBS_JOURNAL_POSTGRES="+server.URL(), fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i)))
	}
	time.Sleep(20 * time.Second) // after the start
	return daemons
}
