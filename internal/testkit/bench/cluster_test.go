package bench_test

import (
	"fmt"
	"testing"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/testkit/pgtest"
)

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
			figures.put(b, float64(notion.requests(b).all), "requests/min")
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
