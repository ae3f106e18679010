package claim

import (
	"context"
	"errors"
	"time"

	"dibs/internal/task"
)

// Sweep puts one task with a stale claim back to OPEN and clears the claim,
// after reading the page: only a task that is IN_PROGRESS, and whose lease is
// stale at that moment, is touched. It returns who held the task, and false if
// there was nothing to do, or if RunDue is to see to the rest of it. A finish
// that is owed to Notion is left to be delivered first.
//
// Somebody may be about to override a stale claim, and a task that is reopened
// under a new holder would be claimed by a third. So a sweep competes for the
// task like a claim, with a void mark of its own that makes the stale claim
// live: once the mark has settled nobody else has the task or will get it, and
// the claim can be cleared. A mark that lands late is withdrawn like a claim.
func (c *Claimer) Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error) {
	unlock, err := c.locks.lock(ctx, id)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	permit, err := c.store.Permit(ctx, 2)
	if err != nil {
		return "", false, err
	}
	watch := startWatch()
	r, err := c.get(permit, id)
	if err != nil {
		if k := storeKind(err); k == NotFound {
			err = nil
		}
		return "", false, err
	}
	t := r.Task
	if t.Trashed || t.Status != task.InProgress || !c.policy.Stale(t, r.At) || watch.elapsed() >= c.policy.WriteWindow {
		return "", false, nil
	}
	local, err := c.held(ctx, t)
	if err != nil || local.State == Finishing {
		return "", false, err
	}

	now := c.store.Now()
	cl := Claim{
		ID: NewID(now), Agent: t.ClaimedBy, Task: t, State: Abandoned, Reserved: now, ClaimedAt: now, Due: now.Add(c.policy.Grace),
		Finish: &Finish{As: EndSwept, Summary: "its lease ran out at " + c.policy.LeaseEnd(t).UTC().Format(time.RFC3339), At: now},
	}
	cl.Requested, cl.Own = local.Requested, local.Own
	if err := c.save(ctx, cl); err != nil {
		return "", false, err
	}
	mark := voidMark(cl)
	mark.ClaimedBy, mark.ClaimedAt = new(cl.Agent), new(now) // so that nobody's claim shows in part
	answer, err := c.write(permit, id, mark)
	switch {
	case err != nil && landed(err) == LandedNo:
		_, eerr := c.end(ctx, cl, EndNotGranted, err.Error())
		return "", false, errors.Join(err, eerr)
	case err != nil || watch.elapsed() > c.policy.WriteWindow || !mark.shows(answer.Task, c.policy.NoToken):
		cl.Due = c.store.Now()
		return "", false, errors.Join(err, c.save(ctx, cl))
	}
	if err := pause(ctx, c.policy.Settle); err != nil {
		return "", false, err
	}
	if swept, err = c.reopenMarked(ctx, cl); !swept {
		return "", false, err
	}
	return t.ClaimedBy, true, nil
}

// reopenMarked reopens the task of a sweep whose mark has settled.
func (c *Claimer) reopenMarked(ctx context.Context, cl Claim) (bool, error) {
	permit, err := c.store.Permit(ctx, 2)
	if err != nil {
		return false, err
	}
	watch := startWatch()
	r, err := c.get(permit, cl.Task.ID)
	switch {
	case err != nil:
		return false, err
	case c.token(cl, r.Task).ID != cl.ID:
		return false, c.overtaken(ctx, cl)
	case watch.elapsed() >= c.policy.WriteWindow:
		return false, nil // RunDue sees to it
	}
	cl.State = Voided
	return c.takeOff(ctx, permit, cl, r.Task)
}

// held returns the claim that t shows, if it is one that an agent here has; a
// zero one otherwise.
func (c *Claimer) held(ctx context.Context, t task.Task) (Claim, error) {
	live, err := c.ledger.Live(ctx)
	for _, cl := range live {
		if (cl.State == Held || cl.State == Finishing) && cl.Task.ID == t.ID && c.token(cl, t).ID == cl.ID {
			return cl, nil
		}
	}
	return Claim{}, err
}
