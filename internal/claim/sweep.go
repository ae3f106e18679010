package claim

import (
	"context"
	"strings"

	"dibs/internal/task"
)

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
