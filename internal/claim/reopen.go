package claim

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/task"
)

// Reopen sets the status of a task that no agent holds. With OPEN, it takes name, date and token
// off the task, which nobody can claim before, and forgets the tries at it. Such a task is BLOCKED,
// FAILED, in REVIEW, COMPLETED or CANCELLED, or IN_PROGRESS without a name; with another new
// status, it may be OPEN. Reopen returns the task and its former status, which is the new one if
// there was nothing to do. The error is a *Denied unless the ledger failed or the caller went away:
// CodeHeld if the page shows a live claim or an agent here has one, CodeNotOpen if r.Was does not
// allow the task's status, and CodeReserved if r.Holder does not allow the name on it. Both are checked
// in every reading of the page, the last of which precedes the write, and the status once more if the
// fate of the write is unknown.
//
// Nobody can claim a task in these statuses. But somebody else may open it too, and an agent
// claim it, while our write is on its way. So Reopen first takes off the remains of a claim,
// under a mark that competes like that of a sweep. Then it changes the status in a write of
// nothing else: over a live claim that looks like a person's gesture, and nobody else gets the
// task before the holder's daemon has found out. The same holds for a claim of an OPEN task that
// comes between.
func (c *Claimer) Reopen(ctx context.Context, r Reopening) (t task.Task, was task.Status, err error) {
	unlock, err := c.locks.Lock(ctx, r.Task.ID)
	if err != nil {
		return task.Task{}, "", err
	}
	defer unlock()
	ctx, cancel := c.untilClosed(ctx)
	defer cancel()
	e := &errand{kind: Opening, mark: Mark{Task: r.Task}, ask: &r}
	err = c.run(ctx, e)
	d, denied := errors.AsType[*Denied](err)
	switch {
	case err == nil:
		return e.mark.Task, e.was, nil
	case denied && d.Reach == ReachPage:
		if _, left := c.landing(d.Task); left > 0 {
			d.RetryAfter = left
		}
		if e.sent {
			d.Detail = fmt.Sprintf("it is not known whether %q was %s, look at it or ask again: %s", d.Task.Title, c.policy.asked(r), d.Detail)
		}
	case !denied && e.wrote && e.mark.Task.Status == r.to():
		err = fmt.Errorf("%q was %s, but that could not be journalled: %w", e.mark.Task.Title, c.policy.asked(r), err)
	}
	return task.Task{}, "", err
}
