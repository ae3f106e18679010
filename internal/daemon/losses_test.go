package daemon_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dibs/internal/api"
)

// finishUnnamed completes the agent's only claim, and returns the refusal, if there is one.
func (n *node) finishUnnamed(agent, summary string) (api.Claim, *api.Problem) {
	n.w.Helper()
	cl, err := n.Complete(n.w.Context(), api.OnlyClaim, api.CompleteRequest{Agent: agent, Summary: summary}, "")
	p, refused := errors.AsType[*api.Problem](err)
	if err != nil && !refused {
		n.w.Fatal(err)
	}
	return cl, p
}

// take assigns a task to Anna and syncs the daemon.
func (n *node) take(id string) {
	n.w.Helper()
	n.w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")})
	time.Sleep(time.Minute)
	if _, err := n.Sync(n.w.Context(), api.SyncRequest{}, ""); err != nil {
		n.w.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// After a loss, a command without an id does nothing to the next claim until the agent was told of
// the loss, even by the next daemon; completed work is in the task log.
func TestUnnamedAfterALoss(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first, second := w.add("First", nil), w.add("Second", nil)
		o := w.options(quiet)
		n := w.start(o)
		n.mustClaim("Sandman", first)
		n.take(first)
		n.mustClaim("Sandman", second)
		n.stop()
		n = w.start(o)
		_, p := n.finishUnnamed("Sandman", "all of it")
		if p == nil || p.Code != api.CodeClaimLost || p.Holder != "Anna" || p.Task == nil || p.Task.Title != "First" || !strings.Contains(p.Detail, `"Second"`) ||
			len(p.Claims) != 1 || p.Claims[0].Task.Title != "Second" {
			t.Errorf("refused with %+v; want the loss of First to Anna, and that Second is held", p)
		}
		if got := w.page(second).Select("status"); got != "IN_PROGRESS" {
			t.Errorf("the other task is %s", got)
		}
		if cl, p := n.finishUnnamed("Sandman", "the second"); p != nil || cl.Task.Title != "Second" {
			t.Errorf("once it was told: %+v, %v", cl, p)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"completed: Sandman", "orphaned: Sandman"}, w.work()); diff != "" {
			t.Errorf("task log (-want +got):\n%s", diff)
		}
	})
}

// A key can be used wherever a task is named.
func TestTaskByKey(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		id := w.add("Second", nil)
		n := w.daemon(quiet)
		cl := n.mustClaim("Sandman", "task-2")
		if string(cl.Task.ID) != id || cl.Task.Key != "TASK-2" {
			t.Errorf("claimed %+v", cl.Task)
		}
		if found, err := n.Task(w.Context(), "TASK-2"); err != nil || string(found.ID) != id {
			t.Errorf("%+v, %v", found, err)
		}
		if found, err := n.Lookup(w.Context(), "TASK-2", ""); err != nil || found.ID != cl.ID {
			t.Errorf("%+v, %v", found, err)
		}
		if log, err := n.Log(w.Context(), api.LogFilter{Task: "TASK-1"}); err != nil || len(log.Entries) != 0 {
			t.Errorf("%+v, %v", log, err)
		}
		if _, err := n.Task(w.Context(), "TASK-9"); code(err) != "not_found" || !strings.Contains(err.Error(), "TASK-9") {
			t.Error(err)
		}
	})
}
