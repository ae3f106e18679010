package daemon_test

import (
	"context"
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
	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
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
	notion, err := emulator.New(emulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { notion.Close() })
	dbs, err := notion.Seed("empty")
	if err != nil {
		b.Fatal(err)
	}
	// A tenth of the tasks is claimable; each other task depends on one of those.
	var first []string
	ready := max(tasks/10, 1)
	began := time.Now().Add(-1000 * time.Hour)
	at := func(i int) time.Time { return began.Add(time.Duration(i/20) * time.Minute) }
	priorities := []string{"critical", "high", "medium", "low"}
	properties := func(i int) map[string]any {
		return map[string]any{
			"Name":     text("title", fmt.Sprintf("Task %d: something to be done about one of many things", i)),
			"priority": option("select", priorities[i%len(priorities)]),
		}
	}
	err = notion.Fill(dbs.Tasks, ready, func(i int) (time.Time, map[string]any) { return at(i), properties(i) })
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range notion.Pages(dbs.Tasks) {
		first = append(first, p.ID)
	}
	err = notion.Fill(dbs.Tasks, tasks-ready, func(i int) (time.Time, map[string]any) {
		all := properties(ready + i)
		all["depends_on"] = relation(first[i%ready])
		return at(ready + i), all
	})
	if err != nil {
		b.Fatal(err)
	}
	before := heap()

	began = time.Now()
	agent := serve(b, notion, nil)
	if s := whenRead(b, agent); s.Mirror.Tasks != tasks || s.Mirror.Ready != ready {
		b.Fatalf("%d tasks, %d ready; want %d, %d", s.Mirror.Tasks, s.Mirror.Ready, tasks, ready)
	}
	took, requests := time.Since(began), len(notion.Requests())
	notion.ResetRequests()
	memory := heap() - before

	b.Run("first-sync", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(float64(requests), "requests")
		b.ReportMetric(float64(memory)/(1<<20), "MB")
	})
	// counted reports how many requests an operation costs.
	counted := func(name string, do func(i int) error) {
		b.Run(name, func(b *testing.B) {
			notion.ResetRequests()
			i := 0
			for b.Loop() {
				if err := do(i); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(len(notion.Requests()))/float64(i), "requests/op")
		})
	}
	counted("idle-sync", func(int) error {
		_, err := client.Do(b.Context(), agent, api.OpSync, api.Keyed("", &api.SyncRequest{}))
		return err
	})
	counted("sync-of-an-edit", func(i int) error {
		if err := notion.EditPage(first[i%ready], map[string]any{"Name": text("title", fmt.Sprint("Edited ", i))}); err != nil {
			return err
		}
		_, err := client.Do(b.Context(), agent, api.OpSync, api.Keyed("", &api.SyncRequest{}))
		return err
	})
	counted("ready", func(int) error {
		_, err := client.Do(b.Context(), agent, api.OpListTasks, api.ListTasksInput{Ready: true, Limit: 20})
		return err
	})
	counted("ready-by-text", func(int) error {
		_, err := client.Do(b.Context(), agent, api.OpListTasks, api.ListTasksInput{Ready: true, Limit: 20, Text: "one of many things"})
		return err
	})
	counted("nothing-ready", func(int) error { // the answer summarizes the whole board
		_, err := client.Do(b.Context(), agent, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman", Filter: api.Filter{Priority: "none"}}))
		if code(err) != "nothing_ready" {
			return fmt.Errorf("a claim on nothing: %w", err)
		}
		return nil
	})
	counted("status", func(int) error {
		_, err := client.Do(b.Context(), agent, api.OpStatus, struct{}{})
		return err
	})
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

// BenchmarkLookAfter measures the search for remains of claims on all tasks of a large board after
// a sync, if a tenth of them is claimed by other daemons.
//
//	go test -run=NONE -bench=LookAfter ./internal/daemon
func BenchmarkLookAfter(b *testing.B) {
	j, err := journal.Open(b.Context(), filepath.Join(b.TempDir(), journal.FileName))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	c, err := claim.New(claim.Config{
		Store: sim.NewRegister().Store(sim.StoreOptions{}), Ledger: j, Policy: sim.Policy(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	now := time.Now()
	var tasks []task.Task
	for i := range 10_000 {
		t := task.Task{ID: task.ID(fmt.Sprintf("%032d", i)), Status: task.Open}
		if i%10 == 0 {
			t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, "Oracle", now, string(claim.NewID(now))
		}
		tasks = append(tasks, t)
	}
	for name, look := range map[string]func(context.Context, task.Task) (bool, error){
		"sighted": func(ctx context.Context, t task.Task) (bool, error) { return c.Sighted(ctx, t.Token) },
		"tidy":    c.Tidy,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, t := range tasks {
					if done, err := look(b.Context(), t); done || err != nil {
						b.Fatal(done, err)
					}
				}
			}
		})
	}
}

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
