package bench_test

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"dibs/internal/api/client"
)

// members are the numbers of daemons that grants are measured with, and idlers those that have
// nothing to do.
var (
	members = []int{1, 2, 4}
	idlers  = []int{1, 4, 16}
)

// BenchmarkCluster lets 64 agents of several daemons, which form a cluster with an etcd on this
// machine, ask for the next task again and again, and keep what they get.
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

// startCluster starts an etcd and n daemons that it decides between.
func startCluster(b *testing.B, notion *board, n int) (daemons []*daemon) {
	b.Helper()
	etcd := startEtcd(b)
	for i := range n {
		daemons = append(daemons, startDaemon(b, notion, "DIBS_CLUSTER_ETCD="+etcd, fmt.Sprint("DIBS_CLUSTER_NAME=daemon-", i)))
	}
	return daemons
}

// startEtcd starts the etcd that is installed here, and waits until it answers.
func startEtcd(b *testing.B) string {
	b.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		b.Fatal("there is no etcd on the PATH: apt-get install etcd-server")
	}
	var urls [2]string
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		urls[i] = "http://" + l.Addr().String()
		l.Close()
	}
	cmd := exec.Command(program, "--data-dir", b.TempDir(), "--logger", "zap", "--log-level", "fatal",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1])
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(urls[0] + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return urls[0]
			}
		}
		if time.Now().After(end) {
			b.Fatalf("etcd does not start: %v", err)
		}
	}
}
