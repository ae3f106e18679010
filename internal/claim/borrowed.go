package claim

import (
	"context"
	"errors"
	"iter"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// A claim that asks for a lease of its own writes it on the task's page, because that is
// what others go by, and puts back what stood there when it ends. Where somebody else ends
// it, the daemon that knows what stood there remembers it, as the mark of a sweep that has
// not been written. The page cannot just be written to: it may be claimed at any moment, by
// somebody who then counts on the lease that it read. So the mark competes for the task as
// a sweep does, once the page shows nobody's claim.

// owe remembers that the task of cl, which is over and not by its agent's doing, may have
// the lease length that cl asked for.
func (c *Claimer) owe(ctx context.Context, cl Hold) error {
	if asked := cl.asked(); asked == 0 || asked == cl.Own {
		return nil
	}
	now := c.store.Now()
	return c.save(ctx, Hold{
		ID: NewID(now), Agent: cl.Agent, Task: cl.Task, State: Unseen, Reserved: now,
		Lease: Lease{Requested: cl.Requested, Own: cl.Own},
		Sweep: &Sweep{Reason: "claim_timeout_minutes was put back to what it was before this claim", Of: cl.ID, Lease: true},
	})
}

// owes reports whether c is such a mark, and has not been written.
func (c Hold) owes() bool { return c.Sweep != nil && c.Sweep.Lease && c.State == Unseen }

// owed are the marks that have yet to be written, on that task, or on all if it is empty.
func (c *Claimer) owed(id task.ID) iter.Seq[Hold] {
	claims := c.book.on(id)
	if id == "" {
		claims = c.book.until(c.book.steps, forever)
	}
	return func(yield func(Hold) bool) {
		for _, cl := range claims {
			if cl.owes() && !yield(cl) {
				return
			}
		}
	}
}

// repaid forgets what is owed to a task that is as t, on which there is another lease length.
func (c *Claimer) repaid(ctx context.Context, t task.Task) error {
	var errs []error
	for cl := range c.owed(t.ID) {
		if !cl.borrows(t) {
			_, err := c.end(ctx, cl, EndNotGranted, "the task has another lease length by now")
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lender returns the claim, known here, that asked for the lease length that t shows; false
// if t has it by itself, as far as is known. Of own it is not asked.
func (c *Claimer) lender(ctx context.Context, t task.Task, own ID) (Hold, bool) {
	if t.Timeout == 0 {
		return Hold{}, false
	}
	for _, cl := range c.book.on(t.ID) {
		if cl.ID != own && cl.State != Reserved && cl.borrows(t) {
			return cl, true
		}
	}
	if id := ParseToken(t.Token).ID; id != "" && id != own {
		cl, err := c.Find(ctx, id)
		return cl, err == nil && cl.Task.ID == t.ID && cl.borrows(t)
	}
	return Hold{}, false
}

// Repay puts back the lease lengths that lost claims have left on their tasks, where nobody
// has the task. seen returns a task as the mirror has it: as long as that shows another
// thing, nothing is asked of Notion. It goes on after an error and returns the errors
// joined.
func (c *Claimer) Repay(ctx context.Context, seen func(task.ID) (task.Task, bool)) error {
	free := func(cl Hold) bool {
		t, ok := seen(cl.Task.ID)
		return cl.owes() && ok && (!cl.borrows(t) || vacant(t))
	}
	var owed []Hold
	for cl := range c.owed("") {
		owed = append(owed, cl)
	}
	return c.each(ctx, owed, free, func(cl Hold) error { return c.repay(ctx, cl) })
}

// vacant reports whether a task shows nobody's claim, and may be claimed by anybody.
func vacant(t task.Task) bool {
	return !t.Trashed && t.Status == task.Open && Assignee(t) == "" && (t.ClaimedBy == "" || ParseToken(t.Token).Done)
}

// repay puts back one lease length. The task is locked.
func (c *Claimer) repay(ctx context.Context, cl Hold) error {
	v, err := c.visit(ctx, cl.Task.ID, 0)
	if err != nil {
		if kind := storeKind(err); kind == NotFound || kind == Trashed {
			err = nil
		}
		return err
	}
	defer v.Close()
	if err := c.repaid(ctx, v.Task); err != nil || !cl.borrows(v.Task) || !vacant(v.Task) || v.Unsure {
		return err
	}
	cl.Task = v.Task
	cl, marked, err := c.putMark(ctx, v, cl)
	if !marked {
		return err
	}
	if err := clock.Pause(ctx, c.policy.Settle); err != nil {
		return err
	}
	_, err = c.reopenMarked(ctx, cl)
	return err
}

// outrun closes the mark cl, which is not on its page. One that is owed to the task waits
// for the next time that nobody has it.
func (c *Claimer) outrun(ctx context.Context, cl Hold, detail string) error {
	if cl.Sweep.Lease {
		cl.State, cl.Due = Unseen, time.Time{}
		return c.save(ctx, cl)
	}
	_, err := c.end(ctx, cl, EndNotGranted, detail)
	return err
}
