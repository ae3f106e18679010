package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Guard compares a held claim with what the mirror saw of its task. If they
// differ, or the claim is under suspicion, the page itself is read and decides:
// a claim covered by an abandoned one is written back, one that somebody else
// ended is lost, and a lease that was changed is taken note of. A nil seen always reads the page. The error is a *Lost if the
// claim is found to be over.
func (c *Claimer) Guard(ctx context.Context, id ID, seen *task.Task) error {
	cl, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if cl.State != Held {
		return nil
	}
	if seen != nil && cl.Suspect.IsZero() {
		if s, _, _ := c.look(cl, *seen, c.store.Now()); s == mine && c.fresh(cl, *seen) {
			return nil
		}
	}
	return c.guard(ctx, cl)
}

// guard reads the page of a held claim and acts on what it shows.
func (c *Claimer) guard(ctx context.Context, cl Claim) error {
	permit, err := c.store.Permit(ctx, 2)
	if err != nil {
		return err
	}
	watch := startWatch()
	r, err := c.get(permit, cl.Task.ID)
	if err != nil {
		if storeKind(err) == NotFound {
			_, err = c.lose(ctx, cl, "", err.Error())
		}
		return err
	}
	s, holder, detail := c.look(cl, r.Task, r.At)
	switch {
	case s == mine:
		cl.Suspect, cl.Due, cl.Detail = time.Time{}, time.Time{}, ""
		c.refresh(&cl, r.Task)
		return c.save(ctx, cl)
	case s == suspect && c.bearWith(&cl, detail):
		return c.save(ctx, cl)
	case s != covered:
		_, err := c.lose(ctx, cl, holder, detail)
		return err
	}

	if watch.elapsed() >= c.policy.WriteWindow {
		return nil // the next look repairs it
	}
	w := restoreWrite(cl, r.Task)
	answer, err := c.write(permit, cl.Task.ID, w)
	if err != nil || !w.shows(answer.Task, c.policy.NoToken) {
		// Whether it landed shows at the next look; writing it again then does no harm.
		return err
	}
	cl.Suspect, cl.Due, cl.Detail = time.Time{}, time.Time{}, ""
	c.refresh(&cl, answer.Task)
	e := cl.event(KindConflict, c.store.Now())
	e.Holder, e.Detail, e.Remote = holder, detail+"; the claim was written back", true
	return c.save(ctx, cl, e)
}
