package daemon_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Several daemons on one board get in each other's way as little as can be: each begins
// elsewhere among the ready tasks once it has met another, and looks at the board again
// rather than at one task after the other.
func TestDaemonsShareABoard(t *testing.T) {
	t.Parallel()
	const daemons, agents, tasks = 4, 8, 40
	const mostRequests, mostWait = 9.0, 5 * time.Second // one alone on the board needs 7
	inWorld(t, 0, func(w *world) {
		for i := range tasks {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		var nodes []*node
		for range daemons {
			nodes = append(nodes, w.daemon(nil))
		}
		time.Sleep(time.Minute)
		w.notion.ResetRequests()
		var all sync.WaitGroup
		var mu sync.Mutex
		granted := make(map[task.ID]int)
		var waits []time.Duration
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
					granted[cl.Task.ID]++
					waits = append(waits, time.Since(began))
					mu.Unlock()
					time.Sleep(10 * time.Second)
					if err := n.complete(cl); err != nil {
						w.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, n := range nodes { // what is owed is delivered before the count
			for n.status().Outbox.Depth > 0 {
				time.Sleep(time.Second)
			}
		}
		requests := len(w.notion.Requests())
		for _, n := range nodes {
			n.stop()
		}
		for id, times := range granted {
			if times != 1 {
				w.Errorf("task %s was granted %d times", id, times)
			}
		}
		slices.Sort(waits)
		each, p90 := float64(requests)/tasks, waits[len(waits)*9/10]
		w.Logf("%d requests, %.1f a task; half of the claims took %v, nine in ten %v", requests, each, waits[len(waits)/2], p90)
		if len(granted) != tasks {
			w.Errorf("%d tasks were granted, want %d", len(granted), tasks)
		}
		if each > mostRequests || p90 > mostWait {
			w.Errorf("%.1f requests a task, 90 %% of the claims within %v; want at most %.1f and %v", each, p90, mostRequests, mostWait)
		}
	})
}
