package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	case !denied && (e.wrote || e.sent) && e.mark.Task.Status == r.to():
		err = fmt.Errorf("%q was %s, but that could not be journalled: %w", e.mark.Task.Title, c.policy.asked(r), err)
	}
	return task.Task{}, "", err
}

// Sweep puts one task with a stale claim back to OPEN and clears the claim. If the task has
// used up its tries (Policy.MaxAttempts), it becomes BLOCKED instead. Sweep reads the page
// first, and touches only a task that is IN_PROGRESS and whose lease is stale at that moment.
// It returns who held the task. swept is false if there was nothing to do, or if the mark was
// written and RunDue finishes the sweep later. A finish that is owed to Notion is delivered
// first.
//
// Somebody may be about to override a stale claim, and a task that is reopened under a new
// holder would be claimed by a third. So a sweep competes for the task like a claim, with a
// void mark of its own that makes the stale claim live. Once the mark has settled, nobody else
// has the task or will get it, and the claim can be cleared. A mark that lands late is
// withdrawn like a claim.
func (c *Claimer) Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error) {
	return c.SweepFor(ctx, id, "", "")
}

// SweepFor is Sweep with a note for the record and the user who asked, see Fact.By. Either may
// be empty.
func (c *Claimer) SweepFor(ctx context.Context, id task.ID, note, by string) (former string, swept bool, err error) {
	unlock, err := c.locks.Lock(ctx, id)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if c.LeftAlone(id) > 0 {
		return "", false, nil
	}
	e := c.sweeping(id, note, by)
	if err := c.run(ctx, e); err != nil || !e.wrote {
		return "", false, err
	}
	m, swept, err := c.takeOff(ctx, e.mark)
	if swept = swept && m.Why == Swept; !swept {
		return "", false, err
	}
	return m.Agent, true, nil
}

// sweeping returns the errand of a sweep.
func (c *Claimer) sweeping(id task.ID, note, by string) *errand {
	now := c.store.Now()
	return &errand{kind: Sweeping, mark: Mark{ID: NewID(now), Why: Swept, Task: task.Task{ID: id}, Made: now, Reason: note, By: by}}
}

// Tidy takes off a page the claim of this ledger that it shows without right: a claim that is
// over, or that was made on another page, of which this one is a copy. Everybody else would
// take the task for held until that lease ends. mirrored is the task in the mirror; Notion is asked
// only if it shows such a claim. Tidy reports whether it wrote anything.
//
// An ended claim may be on its page because of an undo, or because its write came late and
// covered a live claim. So it is taken off in two steps, like an abandoned claim: it is marked
// void, and RunDue reopens the task after the grace.
func (c *Claimer) Tidy(ctx context.Context, mirrored task.Task) (tidied bool, err error) {
	if c.policy.Over(mirrored, c.store.Now()) || c.LeftAlone(mirrored.ID) > 0 {
		return false, nil // if its lease is over, it is left to be overridden or swept
	}
	if _, ok, err := c.remains(ctx, mirrored); !ok || err != nil {
		return false, err
	}
	unlock, err := c.locks.Lock(ctx, mirrored.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	e := &errand{kind: Tidying, mark: Mark{Task: mirrored}}
	err = c.run(ctx, e)
	return e.wrote, err
}

// Tell writes onto the note of a task that nobody has why it can never become ready. reason judges
// the page as it was read just now; if it returns nothing, or the note says so already, nothing is
// written. told is false if somebody has the task, or it may become ready after all. It changes
// nothing but the note, on which no claim rests, so it need not compete with others.
func (c *Claimer) Tell(ctx context.Context, id task.ID, reason func(task.Task) string) (told bool, err error) {
	unlock, err := c.locks.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, taken := c.On(id); taken {
		return false, nil
	}
	v, err := c.visit(ctx, id, 0)
	if err != nil {
		return false, err
	}
	defer v.Close()
	why := ""
	if vacant(v.Task) {
		why = reason(v.Task)
	}
	if why == "" {
		return false, nil
	}
	line := noteLine(noteStuck, why, Sweeper, v.At)
	if strings.Contains(v.Task.Note, strings.TrimSuffix(line, noteTime(v.At))) {
		return true, nil
	}
	_, _, err = v.write(Write{Note: &line})
	return err == nil, err
}

// vacant reports whether a task shows no claim and may be claimed by anybody.
func vacant(t task.Task) bool {
	return !t.Trashed && t.Status == task.Open && Assignee(t) == "" && (t.ClaimedBy == "" || ParseToken(t.Token).Done)
}
