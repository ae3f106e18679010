package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/inbox"
)

// finishUnnamed completes without naming a claim, and returns the refusal, if there is one.
func (n *node) finishUnnamed(agent, summary string) (api.Claim, *api.Problem) {
	n.w.Helper()
	cl, err := n.Complete(n.w.Context(), api.OnlyClaim, api.CompleteRequest{Agent: agent, Summary: summary}, "")
	p, refused := errors.AsType[*api.Problem](err)
	if err != nil && !refused {
		n.w.Fatal(err)
	}
	return cl, p
}

// take puts Anna's name on a task, and has the daemon see it.
func (n *node) take(id string) {
	n.w.Helper()
	n.w.edit(id, map[string]any{"claimed_by": text("rich_text", "Anna")})
	n.refresh()
}

func (n *node) refresh() {
	n.w.Helper()
	time.Sleep(time.Minute)
	if _, err := n.Sync(n.w.Context(), api.SyncRequest{}, ""); err != nil {
		n.w.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// wantLoss checks that a refusal names a lost task, why it was lost and to whom.
func wantLoss(t *testing.T, p *api.Problem, title, also string) {
	t.Helper()
	if p == nil {
		t.Fatal("it was not refused")
	}
	if p.Code != api.CodeClaimLost || p.Task == nil || p.Task.Title != title || p.Holder != "Anna" ||
		!strings.Contains(p.Detail, title) || !strings.Contains(p.Detail, "Anna") || !strings.Contains(p.Detail, also) {
		t.Errorf("refused with %+v; want the loss of %q to Anna, and %q", p, title, also)
	}
}

// After a loss, a command without an id does nothing to the next claim before it was
// told of the loss, by whichever daemon.
func TestUnnamedAfterALoss(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		inWorld(t, 0, func(w *world) {
			first, second := w.add("First", nil), w.add("Second", nil)
			o := w.options(quiet)
			n := w.start(o)
			defer func() { n.stop() }()
			n.mustClaim("Sandman", first)
			n.take(first)
			n.mustClaim("Sandman", second)
			if restart {
				n.stop()
				n = w.start(o)
			}
			_, p := n.finishUnnamed("Sandman", "all of it")
			wantLoss(t, p, "First", `"Second"`)
			if len(p.Claims) != 1 || p.Claims[0].Task.Title != "Second" {
				t.Errorf("claims that could be meant: %+v", p.Claims)
			}
			if got := w.page(second).Select("status"); got != "IN_PROGRESS" {
				t.Errorf("the other task is %s", got)
			}
			if cl, p := n.finishUnnamed("Sandman", "the second"); p != nil || cl.Task.Title != "Second" {
				t.Errorf("once it was told: %+v, %v", cl, p)
			}
			time.Sleep(time.Minute)
			pages := w.notion.Pages(w.notion.Databases().TaskLog)
			var entries []string
			for _, page := range pages {
				entries = append(entries, page.Select("outcome")+" "+page.Text("summary"))
			}
			if got := strings.Join(entries, ", "); !strings.Contains(got, "orphaned all of it") || !strings.Contains(got, "completed the second") || len(entries) != 2 {
				t.Errorf("task log: %s", got)
			}
		})
	}
}

// Once any answer has told an agent of a loss, it means the claim that is left when it names
// none, also if it held that one beside the lost one.
func TestUnnamedBesideALoss(t *testing.T) {
	t.Parallel()
	answers := map[string]func(n *node, lost api.Claim) error{
		"a refusal": func(n *node, _ api.Claim) error {
			_, p := n.finishUnnamed("Sandman", "")
			wantLoss(t, p, "First", `"Second"`)
			return nil
		},
		"a trigger": func(n *node, _ api.Claim) error {
			got, err := n.Poll(n.w.Context(), "Sandman", api.PollRequest{}, "")
			if err == nil && (len(got.Triggers) == 0 || got.Triggers[0].Type != inbox.ClaimLost) {
				return fmt.Errorf("triggers %+v", got.Triggers)
			}
			return err
		},
		"its claim": func(n *node, lost api.Claim) error {
			_, err := n.Lookup(n.w.Context(), string(lost.ID), "Sandman")
			return err
		},
		"a wait": func(n *node, lost api.Claim) error {
			_, err := n.Watch(n.w.Context(), string(lost.ID), "Sandman", api.EventsFuture, time.Second)
			return err
		},
		"a refusal by its task": func(n *node, lost api.Claim) error {
			_, err := n.Renew(n.w.Context(), string(lost.Task.ID), api.RenewRequest{Agent: "Sandman"}, "")
			if code(err) != string(api.CodeClaimLost) {
				return err
			}
			return nil
		},
	}
	for name, tell := range answers {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				first, second := w.add("First", nil), w.add("Second", nil)
				n := w.daemon(quiet)
				defer n.stop()
				lost := n.mustClaim("Sandman", first)
				kept := n.mustClaim("Sandman", second)
				n.take(first)
				// What others ask does not tell Sandman.
				if _, err := n.Lookup(w.Context(), string(lost.ID), ""); err != nil {
					t.Error(err)
				}
				if at, err := n.Agent(w.Context(), "Sandman"); err != nil || len(at.Lost) != 1 {
					t.Errorf("%+v, %v: want one loss that is not told", at, err)
				}
				if err := tell(n, lost); err != nil {
					t.Error(err)
				}
				if at, err := n.Agent(w.Context(), "Sandman"); err != nil || len(at.Lost) != 0 {
					t.Errorf("%+v, %v: want none that is not told", at, err)
				}
				if cl, p := n.finishUnnamed("Sandman", ""); p != nil || cl.ID != kept.ID {
					t.Errorf("once it was told: %+v, %v", cl, p)
				}
			})
		})
	}
}

// Where nothing is held, the last loss is what is said, also when it was told before;
// and finished work is logged.
func TestUnnamedWithNothingHeld(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		n := w.daemon(quiet)
		defer n.stop()
		n.mustClaim("Sandman", id)
		n.take(id)
		_, err := n.Renew(w.Context(), api.OnlyClaim, api.RenewRequest{Agent: "Sandman"}, "")
		p, _ := errors.AsType[*api.Problem](err)
		wantLoss(t, p, "First", "")
		_, p = n.finishUnnamed("Sandman", "all of it")
		wantLoss(t, p, "First", "")
		time.Sleep(time.Minute)
		if got := w.work(); len(got) != 1 || got[0] != "orphaned: Sandman" {
			t.Errorf("task log: %v", got)
		}
		if _, p := n.finishUnnamed("Oracle", ""); p == nil || p.Code != api.CodeUnknownClaim {
			t.Errorf("an agent that never had a claim is told %v", p)
		}
	})
}

// Who names the task is told what became of the claim, and its work is logged, also when
// somebody else has the task by now.
func TestNamedByTaskAfterALoss(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("First", nil)
		n := w.daemon(quiet)
		defer n.stop()
		n.mustClaim("Sandman", id)
		w.edit(id, map[string]any{"status": option("status", "OPEN"), "claimed_by": text("rich_text", ""), "claimed_at": map[string]any{"date": nil}})
		n.refresh()
		n.mustClaim("Oracle", id)
		_, err := n.Complete(w.Context(), id, api.CompleteRequest{Agent: "Sandman", Summary: "all of it"}, "")
		p, _ := errors.AsType[*api.Problem](err)
		if p == nil || p.Code != api.CodeClaimLost || p.Claim.Agent != "Sandman" || p.Claim.Outcome != claim.EndLost {
			t.Errorf("refused with %+v", p)
		}
		time.Sleep(time.Minute)
		if got := w.work(); len(got) != 1 || got[0] != "orphaned: Sandman" {
			t.Errorf("task log: %v", got)
		}
		if _, p := n.finishUnnamed("Oracle", ""); p != nil {
			t.Error(p)
		}
	})
}

// A key stands for a task wherever one is named.
func TestTaskByKey(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("First", nil)
		id := w.add("Second", nil)
		n := w.daemon(quiet)
		defer n.stop()
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
