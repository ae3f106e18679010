package claim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"
)

// Try is an attempt at the work on a task that failed while the task stayed claimable: the
// agent reported failure and the task was to be tried again, or its claim went stale.
type Try struct {
	Agent string    `json:"agent"`
	At    time.Time `json:"at"` // when it was over, in Notion's time
	// Failed is set if the agent reported failure; otherwise its lease ran out.
	Failed bool   `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Tried says how a fact changes the list of tries at its task, which a Ledger keeps.
type Tried string

// The meanings of facts for the tries. Most facts have none.
const (
	// TriedAgain: one more try, see Fact.Try.
	TriedAgain Tried = "again"
	// TriedOver: the tries so far are forgotten. The task is done, waits for a person, or was
	// reopened.
	TriedOver Tried = "over"
)

// Try returns the try that a fact with TriedAgain records.
func (e Fact) Try() Try {
	t := Try{Agent: e.Agent, At: e.At, Failed: e.Kind == KindFailed, Why: e.Summary}
	if e.Kind == KindOverridden || e.Kind == KindSwept {
		t.Agent = e.Holder
	}
	return t
}

// exhausted returns the history of a task if last uses up its tries (Policy.MaxAttempts): then
// it is a person's turn. Otherwise it returns an empty history.
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

// The limits of a history, which must fit into a line of a note.
const (
	mostTries  = 6
	longestWhy = 100
)

// historyOf describes tries in one line.
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

// setAside ends an attempt that was to override a stale claim, if that claim's end uses up the
// task's tries: the task becomes BLOCKED, as if it were swept. setAside uses the visit v, which
// showed the claim, to write the mark. RunDue does the rest once the mark has settled.
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
