package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
)

// BenchmarkMirror measures daemons with large boards, through their sockets. Requests and memory
// are the daemon's; the times include the emulator, which is in the same process, and no wait for a
// rate limit:
//
//	go test -run=NONE -bench=Mirror ./internal/daemon
func BenchmarkMirror(b *testing.B) {
	for _, tasks := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) { benchmarkMirror(b, tasks) })
	}
}

func benchmarkMirror(b *testing.B, tasks int) {
	notion := emptyBoard(b)
	// A tenth of the tasks is claimable; each other task depends on one of those.
	var first []string
	board, ready := notion.Databases().Tasks, max(tasks/10, 1)
	began := time.Now().Add(-1000 * time.Hour)
	fill := func(from, n int, more func(i int, all map[string]any)) {
		err := notion.Fill(board, n, func(i int) (time.Time, map[string]any) {
			i += from
			all := map[string]any{
				"Name":     text("title", fmt.Sprintf("Task %d: something to be done about one of many things", i)),
				"priority": option("select", []string{"critical", "high", "medium", "low"}[i%4]),
			}
			more(i, all)
			return began.Add(time.Duration(i/20) * time.Minute), all
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	fill(0, ready, func(int, map[string]any) {})
	for _, p := range notion.Pages(board) {
		first = append(first, p.ID)
	}
	fill(ready, tasks-ready, func(i int, all map[string]any) { all["depends_on"] = relation(first[i%ready]) })
	before := heap()

	start := time.Now()
	agent := serve(b, notion, nil)
	if s := whenRead(b, agent); s.Mirror.Tasks != tasks || s.Mirror.Ready != ready {
		b.Fatalf("%d tasks, %d ready; want %d, %d", s.Mirror.Tasks, s.Mirror.Ready, tasks, ready)
	}
	took, requests, memory := time.Since(start), len(notion.Requests()), heap()-before
	b.Run("first-sync", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(float64(requests), "requests")
		b.ReportMetric(float64(memory)/(1<<20), "MB")
	})
	sync := func(b *testing.B) error {
		return second(client.Do(b.Context(), agent, api.OpSync, api.Keyed("", &api.SyncRequest{})))
	}
	list := func(b *testing.B, in api.ListTasksInput) error {
		return second(client.Do(b.Context(), agent, api.OpListTasks, in))
	}
	for _, what := range []struct {
		name string
		do   func(b *testing.B, i int) error
	}{
		{"idle-sync", func(b *testing.B, _ int) error { return sync(b) }},
		{"sync-of-an-edit", func(b *testing.B, i int) error {
			return errors.Join(notion.EditPage(first[i%ready], name(fmt.Sprint("Edited ", i))), sync(b))
		}},
		{"ready", func(b *testing.B, _ int) error { return list(b, api.ListTasksInput{Ready: true, Limit: 20}) }},
		{"ready-by-text", func(b *testing.B, _ int) error {
			return list(b, api.ListTasksInput{Ready: true, Limit: 20, Text: "one of many things"})
		}},
		{"nothing-ready", func(b *testing.B, _ int) error { // the answer summarizes the whole board
			_, err := client.Do(b.Context(), agent, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Priority: "none"}}))
			if code(err) == "nothing_ready" {
				return nil
			}
			return fmt.Errorf("a claim on nothing: %w", err)
		}},
		{"status", func(b *testing.B, _ int) error {
			return second(client.Do(b.Context(), agent, api.OpStatus, struct{}{}))
		}},
	} {
		b.Run(what.name, func(b *testing.B) {
			notion.ResetRequests()
			i := 0
			for ; b.Loop(); i++ {
				if err := what.do(b, i); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(notion.Requests()))/float64(i), "requests/op")
		})
	}
}

// emptyBoard returns an emulator with the three databases.
func emptyBoard(b *testing.B) *emulator.Emulator {
	notion, err := emulator.New(emulator.Options{})
	if err == nil {
		b.Cleanup(func() { notion.Close() })
		_, err = notion.Seed("empty")
	}
	if err != nil {
		b.Fatal(err)
	}
	return notion
}

// serve runs a daemon on notion during the benchmark, and returns a client of it. By itself the
// daemon only reads the board; set changes its configuration.
func serve(b *testing.B, notion *emulator.Emulator, set func(*config.Config)) *client.Client {
	c := config.Default()
	c.Notion.Token, c.Databases = config.Secret(notion.Token()), databases(notion)
	c.Notion.Rate, c.Notion.Burst = 1000, 30_000
	c.Sync.Interval, c.Schedule.FullSync, c.Schedule.Sweep = time.Hour, "@every 1000h", "@every 1000h"
	c.StateDir = filepath.Join(b.TempDir(), "state")
	if set != nil {
		set(&c)
	}
	pipe := server.NewPipe()
	d, err := daemon.Start(b.Context(), daemon.Options{
		Config: c, Version: "bench", Transport: notion.Client().Transport, Listener: pipe, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return client.Over("pipe", pipe.Dial)
}

// whenRead returns the daemon's status once it has read the whole board.
func whenRead(b *testing.B, agent *client.Client) api.Status {
	for {
		s, err := client.Do(b.Context(), agent, api.OpStatus, struct{}{})
		if err != nil {
			b.Fatal(err)
		}
		if s.Mirror.Syncing == nil && !s.Mirror.Stale {
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkGrants lets agents claim the next of 10,000 tasks, with or without completing it, with a
// daemon and an emulator in this process, for a profiler. internal/testkit/bench measures them as separate
// processes.
//
//	go test -run=NONE -bench=Grants -cpuprofile=cpu.out ./internal/daemon
func BenchmarkGrants(b *testing.B) {
	notion := emptyBoard(b)
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
				c, err := client.Do(b.Context(), agent, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: name}))
				if err == nil && complete {
					_, err = client.Do(b.Context(), agent, api.OpComplete, api.On(string(c.ID), "", api.CompleteRequest{Agent: name}))
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
