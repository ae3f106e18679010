package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Sweep puts one task with a stale claim back to OPEN and clears the claim,
// after reading the page: only a task that is IN_PROGRESS, and whose lease is
// stale at that moment, is touched. It returns who held the task, and false if
// there was nothing to do. A finish that is owed to Notion is left to be
// delivered first.
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

	w := clearWrite(task.Open)
	answer, err := c.write(permit, id, w)
	if (err != nil && landed(err) != LandedNo) || (err == nil && !w.shows(answer.Task, c.policy.NoToken)) {
		// Its fate is unknown: the page tells, once it had time to settle.
		if err := pause(ctx, c.policy.Settle); err != nil {
			return "", false, err
		}
		if answer, err = c.read(ctx, id); err == nil && !w.shows(answer.Task, c.policy.NoToken) {
			return "", false, nil // the next sweep sees to it
		}
	}
	if err != nil {
		return "", false, err
	}

	now := c.store.Now()
	gone := local
	if gone.ID == "" {
		gone = Claim{ID: ParseToken(t.Token).ID}
	}
	gone.Task = t
	e := gone.event(KindSwept, now)
	e.Agent, e.Holder, e.Remote = t.ClaimedBy, t.ClaimedBy, true
	e.Detail = "its lease ran out at " + c.policy.LeaseEnd(t).UTC().Format(time.RFC3339)
	if local.ID != "" {
		_, err = c.end(ctx, local, EndSwept, e.Detail, e)
	} else {
		err = c.ledger.Record(context.WithoutCancel(ctx), e)
	}
	return t.ClaimedBy, true, err
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
