package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// pair is two tasks that are open.
func pair() []task.Task { return []task.Task{openTask(1, "First"), openTask(2, "Second")} }

// finishUnnamed completes without naming a claim, and returns the refusal, if there is one.
func (h *house) finishUnnamed(agent, summary string) (api.Claim, *api.Problem) {
	h.Helper()
	cl, err := h.finish(agent, "", claim.EndCompleted, summary)
	if err == nil {
		return cl, nil
	}
	p := h.Problem(err)
	if p == nil {
		h.Fatal(err)
	}
	return cl, p
}

// wantLoss checks that a refusal names a lost task, why it was lost and to whom.
func (h *house) wantLoss(p *api.Problem, title string) {
	h.Helper()
	if p == nil {
		h.Fatal("it was not refused")
	}
	if p.Code != api.CodeClaimLost || p.Task == nil || p.Task.Title != title || p.Holder != "Anna" ||
		!strings.Contains(p.Detail, title) || !strings.Contains(p.Detail, "Anna") {
		h.Errorf("refused with %+v; want the loss of %q to Anna", p, title)
	}
}

// After a loss, a command without an id does nothing to the next claim before it was
// told of the loss, by whichever daemon.
func TestUnnamedAfterALoss(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart=", restart), func(t *testing.T) {
			inHouse(t, nil, pair(), func(h *house) {
				h.take(h.mustClaim("Sandman", pair()[0].ID))
				second := h.mustClaim("Sandman", pair()[1].ID)
				if restart {
					h.restart()
				}
				_, p := h.finishUnnamed("Sandman", "all of it")
				h.wantLoss(p, "First")
				if got := h.board.Page(second.Task.ID).Status; got != task.InProgress {
					h.Errorf("the other task is %s", got)
				}
				if cl, p := h.finishUnnamed("Sandman", "the second"); p != nil || cl.Task.Title != "Second" {
					h.Errorf("once it was told: %+v, %v", cl, p)
				}
				if orphaned, completed := h.logged(claim.KindOrphaned), h.logged(claim.KindCompleted); orphaned != 1 || completed != 1 {
					h.Errorf("on record: %d orphaned, %d completed; want one of each", orphaned, completed)
				}
			})
		})
	}
}

// Once any answer has told an agent of a loss, it means the claim that is left when it names
// none, also if it held that one beside the lost one.
func TestUnnamedBesideALoss(t *testing.T) {
	for name, tell := range map[string]func(h *house, lost api.Claim) error{
		"a refusal": func(h *house, _ api.Claim) error {
			_, p := h.finishUnnamed("Sandman", "")
			h.wantLoss(p, "First")
			return nil
		},
		"a trigger": func(h *house, lost api.Claim) error {
			if _, err := h.journal.AddTriggers(h.Context(), inbox.Trigger{Type: inbox.ClaimLost, Agent: "Sandman", At: time.Now(), Task: task.Task{ID: lost.Task.ID}}); err != nil {
				return err
			}
			got, err := h.poll(h.Context(), "Sandman", "", 0)
			if err == nil && (len(got) == 0 || got[0].Type != inbox.ClaimLost) {
				return fmt.Errorf("triggers %+v", got)
			}
			return err
		},
		"its claim": func(h *house, lost api.Claim) error {
			_, err := h.Lookup(h.Context(), string(lost.ID), "Sandman")
			return err
		},
		"a wait": func(h *house, lost api.Claim) error {
			_, err := h.Watch(h.Context(), &api.GetClaimInput{ID: string(lost.ID), Agent: "Sandman", After: api.EventsFuture, Wait: "1s"})
			return err
		},
		"a refusal by its task": func(h *house, lost api.Claim) error {
			err := h.renew("Sandman", string(lost.Task.ID))
			if h.code(err) != string(api.CodeClaimLost) {
				return fmt.Errorf("renewed: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, pair(), func(h *house) {
				lost := h.mustClaim("Sandman", pair()[0].ID)
				kept := h.mustClaim("Sandman", pair()[1].ID)
				h.take(lost)
				// What others ask does not tell Sandman.
				if _, err := h.Lookup(h.Context(), string(lost.ID), ""); err != nil {
					h.Error(err)
				}
				if at := h.agent("Sandman"); len(at.Lost) != 1 {
					h.Errorf("%+v: want one loss that is not told", at)
				}
				if err := tell(h, lost); err != nil {
					h.Error(err)
				}
				if at := h.agent("Sandman"); len(at.Lost) != 0 {
					h.Errorf("%+v: want none that is not told", at)
				}
				if cl, p := h.finishUnnamed("Sandman", ""); p != nil || cl.ID != kept.ID {
					h.Errorf("once it was told: %+v, %v", cl, p)
				}
			})
		})
	}
}

// Where nothing is held, the last loss is what is said, also when it was told before;
// and finished work is logged.
func TestUnnamedWithNothingHeld(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		h.take(h.mustClaim("Sandman", pair()[0].ID))
		err := h.renew("Sandman", "")
		h.wantLoss(h.Problem(err), "First")
		_, p := h.finishUnnamed("Sandman", "all of it")
		h.wantLoss(p, "First")
		if n := h.logged(claim.KindOrphaned); n != 1 {
			h.Errorf("%d orphaned on record, want 1", n)
		}
		if _, p := h.finishUnnamed("Oracle", ""); p == nil || p.Code != api.CodeUnknownClaim {
			h.Errorf("an agent that never had a claim is told %v", p)
		}
	})
}

// Who names the task is told what became of the claim, and its work is logged, also when
// somebody else has the task by now.
func TestNamedByTaskAfterALoss(t *testing.T) {
	inHouse(t, nil, pair(), func(h *house) {
		id := pair()[0].ID
		cl := h.mustClaim("Sandman", id)
		h.edit(id, func(t *task.Task) { t.Status, t.ClaimedBy, t.ClaimedAt = task.Open, "", time.Time{} })
		h.guard(cl)
		h.mustClaim("Oracle", id)
		_, err := h.finish("Sandman", string(id), claim.EndCompleted, "all of it")
		p := h.Problem(err)
		if p == nil || p.Code != api.CodeClaimLost || p.Claim.Agent != "Sandman" || p.Claim.Outcome != claim.EndLost {
			h.Errorf("refused with %+v", p)
		}
		if n := h.logged(claim.KindOrphaned); n != 1 {
			h.Errorf("%d orphaned on record, want 1", n)
		}
		if _, p := h.finishUnnamed("Oracle", ""); p != nil {
			h.Error(p)
		}
	})
}
