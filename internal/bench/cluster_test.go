package bench_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/pgtest"
)

// members are the numbers of daemons that grants are measured with, and idlers those that have
// nothing to do.
var (
	members = []int{1, 2, 4}
	idlers  = []int{1, 4, 16}
)

// BenchmarkCluster lets 64 agents of several daemons, which share a journal in a PostgreSQL server
// on this machine, ask for the next task again and again, and keep what they get.
func BenchmarkCluster(b *testing.B) {
	for _, n := range members {
		b.Run(fmt.Sprintf("daemons=%d", n), func(b *testing.B) {
			notion := startBoard(b)
			daemons := startCluster(b, notion, n)
			agents := make([]*client.Client, 64)
			for i := range agents {
				agents[i] = daemons[i%n].agent()
			}
			benchmarkAgents(b, notion, daemons, agents, false, *length)
		})
	}
}

// BenchmarkIdle has daemons of a cluster have nothing to do for a minute.
func BenchmarkIdle(b *testing.B) {
	for _, n := range idlers {
		b.Run(fmt.Sprintf("daemons=%d", n), func(b *testing.B) {
			notion := startBoard(b)
			startCluster(b, notion, n)
			time.Sleep(20 * time.Second) // what they do at first is over
			notion.requests(b)
			b.ResetTimer()
			time.Sleep(time.Minute)
			figures.put(b, float64(notion.requests(b).all), "requests/min")
		})
	}
}

// startCluster starts a PostgreSQL server and n daemons that have their journal there.
func startCluster(b *testing.B, notion *board, n int) (daemons []*daemon) {
	b.Helper()
	server := pgtest.Run(b, "fsync=on", "full_page_writes=on")
	for i := range n {
		daemons = append(daemons, startDaemon(b, notion, "DIBS_JOURNAL_POSTGRES="+server.URL(), fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i)))
	}
	return daemons
}
