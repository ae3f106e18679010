package daemon_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// Several daemons on one board hinder each other as little as possible: once they have noticed each
// other, their agents prefer different tasks, and read the board again rather than one task after
// the other. A daemon alone needs 7 requests per task. Their start counts. The figures are logged:
//
//	go test -run=TestDaemonsShareABoard -v ./internal/daemon
func TestDaemonsShareABoard(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const daemons, agents, tasks, most = 4, 8, 40, 9.0
	for _, tt := range []struct{ work, wait time.Duration }{ // for nine in ten claims
		{10 * time.Second, 5 * time.Second},
		{time.Second, 10 * time.Second}, // as much as the rate allows
	} {
		t.Run(fmt.Sprint("work=", tt.work), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				for i := range tasks {
					w.add(fmt.Sprint("Task ", i), nil)
				}
				d := drainTogether(w, daemons, agents, tt.work)
				total, kinds := 0, ""
				for _, kind := range slices.Sorted(maps.Keys(d.requests)) {
					total += d.requests[kind]
					kinds += fmt.Sprintf(", %s %.2f", kind, float64(d.requests[kind])/tasks)
				}
				slices.Sort(d.waits)
				each, p90 := float64(total)/tasks, d.waits[len(d.waits)*9/10]
				w.Logf("%.2f requests a task%s; %v; half of the claims took %v, nine in ten %v", each, kinds, d.denied, d.waits[len(d.waits)/2], p90)
				for id, times := range d.granted {
					if times != 1 {
						w.Errorf("task %s was granted %d times", id, times)
					}
				}
				if len(d.granted) != tasks {
					w.Errorf("%d tasks were granted, want %d", len(d.granted), tasks)
				}
				if each > most || p90 > tt.wait {
					w.Errorf("%.1f requests a task, nine in ten claims within %v; want at most %.1f and %v", each, p90, most, tt.wait)
				}
				if n := d.requests["GET databases"]; n > 0 {
					w.Errorf("Notion was looked for %d times although it was there", n)
				}
			})
		})
	}
}

// drained is the cost of draining a board.
type drained struct {
	requests map[string]int // to Notion, by kind
	denied   map[claim.Code]int
	granted  map[task.ID]int
	waits    []time.Duration // for each claim
}

// drainTogether starts daemons that do not know each other, and agents who claim one task after the
// other, at the daemons in turn, and work on each for that long, until none is left.
func drainTogether(w *world, daemons, agents int, work time.Duration) drained {
	d := drained{requests: make(map[string]int), denied: make(map[claim.Code]int), granted: make(map[task.ID]int)}
	var nodes []*node
	w.notion.ResetRequests()
	for range daemons {
		nodes = append(nodes, w.daemon(func(c *config.Config) { // as dibs init writes it
			d := &c.Databases
			d.TasksSource, d.TaskLogSource, d.MeshLogSource = w.notion.DataSource(d.Tasks), w.notion.DataSource(d.TaskLog), w.notion.DataSource(d.MeshLog)
		}))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range agents {
		n := nodes[i%daemons]
		all.Go(func() {
			for {
				began := time.Now()
				cl, err := n.claim(fmt.Sprint("agent-", i), "")
				if code(err) == denied(claim.CodeNothingReady) {
					return
				}
				if err != nil {
					w.Errorf("agent-%d: %v", i, err)
					return
				}
				mu.Lock()
				d.granted[cl.Task.ID]++
				d.waits = append(d.waits, time.Since(began))
				mu.Unlock()
				time.Sleep(work)
				if err := n.complete(cl); err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, n := range nodes { // the outboxes are delivered before the count
		for n.status().Outbox.Depth > 0 {
			time.Sleep(time.Second)
		}
	}
	for _, r := range w.notion.Requests() {
		kind, _, _ := strings.Cut(kindOf(r), "/")
		d.requests[kind]++
	}
	for _, n := range nodes {
		events, err := n.Log(w.Context(), api.LogFilter{Limit: 1000})
		if err != nil {
			w.Error(err)
		}
		for _, e := range events.Entries {
			if e.Kind == claim.KindDenied {
				d.denied[e.Code] += max(e.Count, 1)
			}
		}
		n.stop()
	}
	return d
}
