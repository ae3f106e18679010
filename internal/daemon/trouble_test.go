package daemon_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// troubled are faults of a single page.
var troubled = map[string]emulator.FaultKind{
	"500": emulator.Error500, "409": emulator.Conflict409, "a broken connection": emulator.DropRequest, "HTML": emulator.HTML502,
}

// A failing page does not block other tasks, is reported in the status, and is retried later.
func TestNextPassesOverABrokenPage(t *testing.T) {
	for name, kind := range troubled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				first := w.add("first, and broken", map[string]any{"priority": option("select", "critical")})
				for range 3 {
					w.add("another", nil)
				}
				n := w.daemon(nil)
				mend := w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + first, Kind: kind})
				began := time.Now()
				for _, agent := range []string{"Sandman", "Oracle"} {
					if cl := n.mustClaim(agent, ""); string(cl.Task.ID) == first {
						w.Errorf("%s claimed the task whose page is broken", agent)
					}
				}
				if took := time.Since(began); took > time.Minute {
					w.Errorf("two claims took %v", took)
				}
				if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "first, and broken") {
					w.Errorf("warnings %q, want one of the broken page", s.Warnings)
				}
				mend()
				time.Sleep(10 * time.Minute)
				if cl := n.mustClaim("Sandman", ""); string(cl.Task.ID) != first {
					w.Errorf("claimed %q, want the page that was broken", cl.Task.Title)
				}
				if s := n.status(); len(s.Warnings) != 0 {
					w.Errorf("warnings %q, want none", s.Warnings)
				}
			})
		})
	}
}

// If every ready task fails, the answer is not that nothing is ready.
func TestNextWithNothingButABrokenPage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("broken", nil)
		n := w.daemon(nil)
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + id, Kind: emulator.Error500})()
		for range 2 {
			if _, err := n.claim("Sandman", ""); code(err) != denied(claim.CodeNotionUnavailable) {
				w.Errorf("err = %v, want notion_unavailable", err)
			}
		}
	})
}

// A temporary failure of a write does not refuse a claim.
func TestClaimWriteFailsInPassing(t *testing.T) {
	for name, kind := range troubled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.add("work", nil)
				n := w.daemon(nil)
				w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: kind, Times: 1})
				cl := n.mustClaim("Sandman", id)
				if got := w.page(id); got.Text("claim_token") != string(cl.ID) {
					w.Errorf("the page shows token %q, want %q", got.Text("claim_token"), cl.ID)
				}
			})
		})
	}
}

// A repeated request under a key is not refused because of a write that never arrived.
func TestKeyAfterAWriteThatNeverArrived(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.DropRequest})
		ask := func() (api.Claim, error) {
			return n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", Task: id}, "once")
		}
		if _, err := ask(); code(err) != denied(claim.CodeNotionUnavailable) {
			w.Fatalf("err = %v, want notion_unavailable", err)
		}
		mend()
		cl, err := ask()
		if err != nil {
			w.Fatal(err)
		}
		if again, err := ask(); err != nil || again.ID != cl.ID {
			w.Errorf("asked again: %v, %v; want the same claim", again.ID, err)
		}
	})
}

// A failing stale task does not keep others from being swept.
func TestSweepPassesOverABrokenPage(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		var ids []string
		for range 3 {
			ids = append(ids, w.add("left behind", map[string]any{
				"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(time.Now().Add(-3 * time.Hour)),
				"claim_token": text("rich_text", string(claim.NewID(time.Now().Add(-3*time.Hour)))),
			}))
		}
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + ids[0], Kind: emulator.Error500})()
		w.daemon(nil)
		time.Sleep(5 * time.Minute)
		for i, id := range ids {
			status := w.page(id).Select("status")
			if open := status == string(task.Open); open != (i > 0) {
				w.Errorf("task %d is %s", i, status)
			}
		}
	})
}

// A waiter hears of a new task even while another one is skipped.
func TestWaitingWhileAPageIsBroken(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("broken", nil)
		defer w.notion.Inject(emulator.Fault{Path: "/v1/pages/" + id, Kind: emulator.Error500})()
		n := w.daemon(nil)
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 600}, ""); err != nil {
				w.Error(err)
			}
			granted <- time.Now()
		}()
		time.Sleep(20 * time.Second)
		w.add("new", nil)
		added := time.Now()
		if took := (<-granted).Sub(added); took > 2*interval {
			w.Errorf("granted %v after the task was added", took)
		}
	})
}

// A time in which all pages failed, and queries did not, ends when Notion says so: pages are not
// skipped for long because of it.
func TestPagesAfterASpell(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("work", nil)
		n := w.daemon(nil)
		mend := w.notion.Inject(emulator.Fault{Path: "/v1/pages/*", Kind: emulator.Error503})
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := n.Claim(w.Context(), api.ClaimRequest{Agent: "Sandman", WaitSeconds: 3600}, ""); err != nil {
				w.Error(err)
			}
			granted <- time.Now()
		}()
		time.Sleep(20 * time.Minute)
		mend()
		mended := time.Now()
		if took := (<-granted).Sub(mended); took < 0 || took > time.Minute {
			w.Errorf("granted %v after pages could be read again", took)
		}
	})
}

// Agents that claim named tasks with unread dependencies do not block each other forever.
func TestManyWithUnknownDependencies(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		const agents = 14
		var finished, ids []string
		for i := range 60 {
			finished = append(finished, w.add(fmt.Sprint("finished ", i), map[string]any{"status": option("status", "COMPLETED")}))
		}
		time.Sleep(72 * time.Hour) // they are no longer listed
		for i := range 60 {
			ids = append(ids, w.add(fmt.Sprint("task ", i), map[string]any{"depends_on": relation(finished[i])}))
		}
		n := w.daemon(nil)
		var all sync.WaitGroup
		began := time.Now()
		for i := range agents {
			all.Go(func() { n.mustClaim(fmt.Sprint("agent-", i), ids[59-i]) })
		}
		all.Wait()
		if took := time.Since(began); took > 2*time.Minute {
			w.Errorf("%d claims took %v", agents, took)
		}
	})
}
