package claim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"
)

// Try is a piece of work on a task that came to nothing, while the task went back to those
// that can be claimed: it failed and was to be tried again, or its claim went stale.
type Try struct {
	Agent string    `json:"agent"`
	At    time.Time `json:"at"` // when it was over, in Notion's time
	// Failed is set if the agent said so; else its lease ran out.
	Failed bool   `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Tried is what a fact means for the tries at its task, of which a Ledger keeps count.
type Tried string

// What facts may mean. Most mean nothing for the tries.
const (
	// TriedAgain: there was one more, see Fact.Try.
	TriedAgain Tried = "again"
	// TriedOver: those so far are forgotten. The task is done, or waits for a person, or
	// was reopened.
	TriedOver Tried = "over"
)

// Try is the try that a fact with TriedAgain tells of.
func (e Fact) Try() Try {
	t := Try{Agent: e.Agent, At: e.At, Failed: e.Kind == KindFailed, Why: e.Summary}
	if e.Kind == KindOverridden || e.Kind == KindSwept {
		t.Agent = e.Holder
	}
	return t
}

// exhausted is the history of a task of which last is the latest try, if that is as many
// as there may be (Policy.MaxAttempts): then it is a person's turn. Else it is empty.
func (c *Claimer) exhausted(ctx context.Context, id task.ID, last Try) (history string, err error) {
	if c.policy.MaxAttempts == 0 {
		return "", nil
	}
	tries, err := c.ledger.Tries(context.WithoutCancel(ctx), id)
	if err != nil {
		return "", fmt.Errorf("task %s: how often it was tried could not be read: %w", id, err)
	}
	if tries = append(tries, last); len(tries) < c.policy.MaxAttempts {
		return "", nil
	}
	return historyOf(tries), nil
}

// How much of a history is told: a line of a note has room for so much.
const (
	mostTries  = 6
	longestWhy = 100
)

// historyOf tells of tries in a line.
func historyOf(tries []Try) string {
	text := fmt.Sprintf("tried %d times", len(tries))
	if len(tries) == 1 {
		text = "tried once"
	}
	if len(tries) > mostTries {
		tries = tries[len(tries)-mostTries:]
		text += fmt.Sprintf(", the last %d", mostTries)
	}
	said := make([]string, len(tries))
	for i, t := range tries {
		what := "the claim of " + t.Agent + " ran out"
		if t.Failed {
			what = t.Agent + " failed"
		}
		said[i] = what + " at " + noteTime(t.At)
		if why := task.OneLine(t.Why, longestWhy); why != "" {
			said[i] += " (" + why + ")"
		}
	}
	return text + ": " + strings.Join(said, ", ")
}

// setAside ends an attempt that was to override a stale claim, and with it the last try
// that the task may have: the task becomes BLOCKED, as if it were swept. v, which showed
// the claim, is used for the mark; RunDue does the rest once that has settled.
func (a *attempt) setAside(ctx context.Context, v *visit, history string) (Hold, error) {
	former := v.Task
	_, err := a.deny(ctx, Denied{
		Code: CodeNotOpen,
		Detail: fmt.Sprintf("%q cannot be claimed: the claim of %s ran out, and it was tried as often as claim.max_attempts allows (%d), so it becomes BLOCKED; ask for the next ready task instead",
			former.Title, former.ClaimedBy, a.policy.MaxAttempts),
	}, true)
	work, cancel := a.detached(ctx)
	defer cancel()
	merr := a.act(work, v, a.sweeping(former.ID, "", ""))
	if merr != nil {
		a.log.Warn("a task that was tried too often could not be marked yet, and the next sweep does it", "task", former.ID, "error", merr)
	}
	return Hold{}, err
}
