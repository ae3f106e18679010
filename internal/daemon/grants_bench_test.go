package daemon_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/notion/emulator"
)

// BenchmarkGrants lets agents claim the next of 10,000 tasks, with or without completing it, with a
// daemon and an emulator in this process, for a profiler. internal/testkit/bench measures them as separate
// processes.
//
//	go test -run=NONE -bench=Grants -cpuprofile=cpu.out ./internal/daemon
func BenchmarkGrants(b *testing.B) {
	notion, err := emulator.New(emulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { notion.Close() })
	if _, err := notion.Seed("empty"); err != nil {
		b.Fatal(err)
	}
	if err := notion.AddTasks(10_000); err != nil {
		b.Fatal(err)
	}
	agent := serve(b, notion, func(c *config.Config) { c.Claim.Exclusive, c.Claim.Settle = true, 0 })
	whenRead(b, agent)
	for _, agents := range []int{1, 16} {
		for _, complete := range []bool{false, true} {
			b.Run(fmt.Sprintf("agents=%d/complete=%t", agents, complete), func(b *testing.B) {
				if left := whenRead(b, agent).Mirror.Ready; left < b.N {
					b.Fatalf("%d tasks are left for %d grants: ask for fewer with -benchtime=500x", left, b.N)
				}
				notion.ResetRequests()
				benchmarkGrants(b, agent, agents, complete)
				b.ReportMetric(float64(len(notion.Requests()))/float64(b.N), "requests/op")
			})
		}
	}
}

// benchmarkGrants makes b.N grants. Claims that are not completed stay live.
func benchmarkGrants(b *testing.B, agent *client.Client, agents int, complete bool) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	for i := range agents {
		all.Go(func() {
			name := fmt.Sprintf("worker-%02d", i)
			for left.Add(-1) >= 0 {
				c, err := agent.Claim(b.Context(), api.ClaimRequest{Agent: name}, "")
				if err == nil && complete {
					_, err = agent.Complete(b.Context(), string(c.ID), api.CompleteRequest{Agent: name}, "")
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
