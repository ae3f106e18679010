package daemon_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// quiet turns off scheduled work, so that one operation's requests can be counted.
func quiet(c *config.Config) { c.Sync.Interval, c.Sync.Waiting = time.Hour, time.Hour }

func TestWhatAnOperationCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		id := w.add("Write the docs", nil)
		n := w.daemon(quiet)
		cost := func(what string, do func(), want ...string) {
			t.Helper()
			w.notion.ResetRequests()
			do()
			time.Sleep(10 * time.Second) // log entries follow by themselves
			if diff := cmp.Diff(want, w.requests()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		var cl api.Claim
		cost("claim", func() { cl = n.mustClaim("Sandman", id) },
			"GET page", "PATCH page", "GET page", "POST pages")
		cost("a refusal for a task held here", func() {
			if _, err := n.claim("Oracle", id); code(err) != denied(claim.CodeHeld) {
				t.Errorf("err = %v, want held", err)
			}
		})
		cost("questions", func() {
			for _, f := range []api.TaskFilter{{}, {Ready: true}, {Status: "OPEN"}} {
				if _, err := n.Tasks(t.Context(), f); err != nil {
					t.Error(err)
				}
			}
			if _, err := n.Task(t.Context(), task.ID(id)); err != nil {
				t.Error(err)
			}
			if _, err := n.Status(t.Context()); err != nil {
				t.Error(err)
			}
		})
		cost("renewal in the first half of the lease", func() {
			if _, err := n.Renew(t.Context(), string(cl.ID), api.RenewRequest{}, ""); err != nil {
				t.Error(err)
			}
		})
		cost("complete, and the refusal summed up", func() {
			if err := n.complete(cl); err != nil {
				t.Error(err)
			}
		}, "GET page", "PATCH page", "POST pages", "POST pages")
		if diff := cmp.Diff([]string{"contested: Sandman", "granted: Sandman"}, w.mesh()); diff != "" {
			t.Errorf("mesh log (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
			t.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

func TestIdleCostsOneRequestAnInterval(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		t := w.T
		for i := range 150 {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		n.mustClaim("Sandman", "")
		time.Sleep(5 * time.Minute) // beyond the overlap of incremental syncs
		w.notion.ResetRequests()
		time.Sleep(10 * time.Minute)
		if got, most := len(w.notion.Requests()), int(10*time.Minute/config.Default().Sync.Interval); got > most {
			t.Errorf("%d requests while idle, want at most %d", got, most)
		}
	})
}

func TestTwentyAgentsDrainAHundredTasks(t *testing.T) {
	testkit.RacedElsewhere(t)
	testkit.TakesSeconds(t)
	t.Parallel()
	const agents, tasks, most = 20, 100, 7.2
	inWorld(t, 180, func(w *world) {
		t := w.T
		for i := range tasks {
			w.add(fmt.Sprint("Task ", i), nil)
		}
		n := w.daemon(nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := make(map[task.ID]int)
		for i := range agents {
			wg.Go(func() {
				for {
					cl, err := n.claim(fmt.Sprint("agent-", i), "")
					switch code(err) {
					case denied(claim.CodeNothingReady):
						return
					case "<nil>":
					default:
						t.Errorf("agent-%d: %v", i, err)
						return
					}
					mu.Lock()
					granted[cl.Task.ID]++
					mu.Unlock()
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					if err := n.complete(cl); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		// The outbox is delivered before the count.
		for {
			s, err := n.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.Outbox.Depth == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		requests := w.notion.Requests()
		n.stop()

		for id, times := range granted {
			if times != 1 {
				t.Errorf("task %s was granted %d times", id, times)
			}
		}
		if len(granted) != tasks || len(w.work()) != tasks || len(w.mesh()) != tasks {
			t.Errorf("%d tasks granted, %d in the task log, %d in the mesh log; want %d each",
				len(granted), len(w.work()), len(w.mesh()), tasks)
		}
		for _, r := range requests {
			if r.Status == 429 {
				t.Fatalf("429 for %s %s at %v", r.Method, r.Path, r.Time)
			}
		}
		if got := float64(len(requests)) / tasks; got > most {
			t.Errorf("%.2f requests per finished task, want at most %.1f", got, most)
		} else {
			t.Logf("%.2f requests per finished task", got)
		}
	})
}

// A restarted daemon reads the pages of all claims that it holds. Permits for writes that turn out
// unnecessary go to the next ones.
func TestRestartLooksAtHeldClaims(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	const held = 40
	inWorld(t, 180, func(w *world) {
		o := w.options(quiet)
		n := w.start(o)
		for i := range held {
			w.add(fmt.Sprintf("task %d", i), nil)
		}
		n.stop()
		n = w.start(o) // reads the tasks
		var wg sync.WaitGroup
		for i := range held {
			wg.Go(func() { n.mustClaim(fmt.Sprintf("agent-%d", i), "") })
		}
		wg.Wait()
		time.Sleep(5 * time.Minute) // for the log entries, and permits for a burst
		n.stop()
		w.notion.ResetRequests()

		began := time.Now()
		n = w.start(o)
		time.Sleep(time.Minute)
		looked := 0
		var last time.Time
		for _, r := range w.notion.Requests() {
			if kindOf(r) == "GET page" {
				looked, last = looked+1, r.Time
			}
		}
		took := last.Sub(began).Round(100 * time.Millisecond)
		w.Logf("looked at %d held claims in %v", looked, took)
		if looked != held || took > 14*time.Second {
			w.Errorf("looked at %d pages in %v, want %d within 14 s", looked, took, held)
		}
	})
}
