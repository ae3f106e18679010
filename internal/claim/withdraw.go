package claim

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/task"
)

// void marks an abandoned claim, so that nobody takes the task for held by a
// live agent for longer than needed, and a holder whose claim it covers can
// write its own back first. A claim whose lease is over is left to be overridden
// or swept.
func (c *Claimer) void(ctx context.Context, cl Hold) error {
	v, err := c.revisit(ctx, cl)
	if v == nil {
		return err
	}
	defer v.Close()
	tok := c.token(cl, v.Task)
	switch {
	case tok.ID != cl.ID || v.Task.Trashed:
		// Not there, or no longer: somebody wrote over it, or it may still come.
		cl.State, cl.Due = Unseen, time.Time{}
		return c.save(ctx, cl)
	case tok.Done || v.Task.ClaimedBy != cl.Agent || Assignee(v.Task) != "" || c.policy.Over(v.Task, v.judged()):
		return c.overtaken(ctx, cl)
	case !tok.Void && !c.policy.NoToken: // without a token there is nothing to mark; the wait remains
		if v.Reading, _, err = v.write(voidMark(cl)); err != nil {
			return c.postpone(ctx, cl, fmt.Errorf("the void mark %w", err))
		}
	}
	cl.State, cl.Due = Voided, v.At.Add(c.policy.Grace)
	return c.save(ctx, cl)
}

// unvoid reopens the task of a voided claim, if the mark is still there, and
// still live: once it is stale, or a person made an assignment of it, somebody may be
// about to claim the task.
func (c *Claimer) unvoid(ctx context.Context, cl Hold) error {
	v, err := c.revisit(ctx, cl)
	if v == nil {
		return err
	}
	defer v.Close()
	tok := c.token(cl, v.Task)
	switch {
	case cl.State == Clearing && (cl.off(v.Task) || tok.ID != "" && tok.ID != cl.ID && !v.Task.Trashed):
		// The write that did it was not answered; and in the second case somebody
		// has claimed the task since, which nobody does under a live mark.
		return c.withdrawn(ctx, cl)
	case tok.ID == cl.ID && !tok.Done && !v.Unsure && v.Task.ClaimedBy != cl.Agent && !v.At.Add(time.Second).Before(cl.Due):
		return c.stepAside(ctx, v, cl)
	case tok.ID != cl.ID && cl.Sweep != nil:
		return c.outrun(ctx, cl, takenBack)
	case tok.ID != cl.ID || tok.Done || v.Task.ClaimedBy != cl.Agent || v.Task.Trashed || Assignee(v.Task) != "" || c.policy.Over(v.Task, v.judged()):
		return c.overtaken(ctx, cl)
	case v.Unsure:
		// The grace may not be over, and a holder on its way to write its claim back.
		return c.postpone(ctx, cl, errUntimed)
	case v.At.Add(time.Second).Before(cl.Due):
		return nil // the clock here jumped ahead, and the answer has set it right
	}
	_, err = c.takeOff(ctx, v, cl)
	return err
}

// takeOff clears a voided claim from its page, and reports whether that is known
// to be done; if not, it is tried again.
func (c *Claimer) takeOff(ctx context.Context, v *visit, cl Hold) (bool, error) {
	if left := c.arrives(cl); left > 0 {
		cl.Due = c.store.Now().Add(left)
		return false, c.save(ctx, cl)
	}
	w := clearWrite(task.Open)
	if v.Task.Status != task.InProgress {
		w.Status = nil // somebody set it; only the claim is taken off
		if cl.Sweep != nil && cl.Sweep.Of == "" {
			cl.Sweep, cl.Detail = nil, "the mark of a sweep was there, and the task was not IN_PROGRESS any more"
		}
	}
	if cl.Sweep != nil && cl.Sweep.Of == "" {
		w.Note = c.sweptNote(cl, v.At)
		if cl.Sweep.History != "" {
			w.Status = new(task.Blocked)
		}
	}
	if cl.Assigned {
		w.ClaimedBy = new(cl.Agent)
	}
	cl.State = Clearing
	if err := v.save(ctx, cl); err != nil {
		return false, err
	}
	if _, _, err := v.write(w.givingBack(cl, v.Task)); err != nil {
		return false, c.postpone(ctx, cl, err)
	}
	return true, c.withdrawn(ctx, cl)
}

// off reports whether t is as the last step of the withdrawal of c leaves it.
func (c Hold) off(t task.Task) bool {
	return t.Token == "" && (t.ClaimedBy == "" || c.Assigned && t.ClaimedBy == c.Agent && t.ClaimedAt.IsZero())
}

// withdrawn closes a claim that is off its page. If it was the mark of a sweep, it
// closes the claim that was swept.
func (c *Claimer) withdrawn(ctx context.Context, cl Hold) error {
	switch {
	case cl.Sweep != nil && cl.Sweep.Of != "":
		return c.tidiedBy(ctx, cl)
	case cl.Sweep != nil:
		return c.sweptBy(ctx, cl)
	}
	e := cl.fact(KindWithdrawn, c.store.Now())
	e.Remote, e.Detail = true, cl.Detail
	_, err := c.end(ctx, cl, EndNotGranted, cl.Detail, e)
	return err
}

// overtaken closes a claim that is not this daemon's to withdraw any more.
func (c *Claimer) overtaken(ctx context.Context, cl Hold) error {
	_, err := c.end(ctx, cl, EndNotGranted, takenBack)
	return err
}

const takenBack = "its task was taken back, changed or free to be taken before the withdrawal was complete"

// revisit visits the page of a claim that is owed a step. The visit is nil if
// there is nothing to be done now.
func (c *Claimer) revisit(ctx context.Context, cl Hold) (*visit, error) {
	v, err := c.visit(ctx, cl.Task.ID, 0)
	switch {
	case err != nil && storeKind(err) == NotFound:
		again := c.askAgain(ctx, cl.Task.ID)
		if again != nil && storeKind(again) == NotFound {
			_, err = c.end(ctx, cl, EndNotGranted, again.Error())
			return nil, err
		}
		return nil, c.postpone(ctx, cl, again)
	case err != nil:
		return nil, c.postpone(ctx, cl, err)
	}
	return v, nil
}
