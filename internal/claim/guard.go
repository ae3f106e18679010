package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Guard compares a held claim with what the mirror saw of its task. If they
// differ, or the claim is under suspicion, the page itself is read and decides:
// a claim covered by an abandoned one is written back, one that somebody else
// ended is lost, and a lease that was changed is taken note of. A nil seen always
// reads the page. The error is a *Lost if the claim is found to be over.
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
		if s, _, _ := c.look(ctx, cl, *seen, c.store.Now()); s == mine && c.fresh(cl, *seen) {
			return nil
		}
	}
	return c.guard(ctx, cl)
}

// repairTries is how often a claim is written back at one look. A holder has to
// get through within the grace of whoever covered its claim.
const repairTries = 3

// guard reads the page of a held claim and acts on what it shows.
func (c *Claimer) guard(ctx context.Context, cl Claim) error {
	var failure error
	for range repairTries {
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
		s, _, _ := c.look(ctx, cl, r.Task, r.At)
		if s == mine {
			_, err = c.stands(ctx, cl, r.Task, "")
			return err
		}
		if cl, err = c.mend(ctx, permit, watch, cl, r); s != covered || cl.Suspect.IsZero() {
			return err
		}
		failure = err
		if err := pause(ctx, c.policy.Settle); err != nil {
			return err
		}
	}
	return failure
}

// mend acts on a page that does not show the held claim cl as it should: it
// writes the claim back if an abandoned one lies over it, bears with a suspected
// late write for a grace, and otherwise closes the claim and returns a *Lost.
// permit is good for one write, and watch has run since the page was asked for.
func (c *Claimer) mend(ctx, permit context.Context, watch stopwatch, cl Claim, r Reading) (Claim, error) {
	s, holder, detail := c.look(ctx, cl, r.Task, r.At)
	patient := c.bearWith(&cl, detail)
	if s != covered && (s != suspect || !patient) {
		return c.lose(ctx, cl, holder, detail)
	}
	// Until it is seen in its place, the claim stays under suspicion, and is
	// looked at again; writing it twice does no harm.
	if err := c.save(ctx, cl); err != nil || s == suspect || watch.elapsed() >= c.policy.WriteWindow {
		return cl, err
	}
	w := restoreWrite(cl, r.Task)
	answer, err := c.write(permit, cl.Task.ID, w)
	if err != nil || !w.shows(answer.Task, c.policy.NoToken) {
		return cl, err
	}
	if late, ok := c.late(ctx, r.Task); ok { // a write lands once
		if err := c.overtaken(ctx, late); err != nil {
			return cl, err
		}
	}
	return c.stands(ctx, cl, answer.Task, holder)
}

// stands takes over what t says about a claim that it shows. If it did not show
// it before, the claim was repaired; holder is whose claim lay over it.
func (c *Claimer) stands(ctx context.Context, cl Claim, t task.Task, holder string) (Claim, error) {
	var events []Event
	if !cl.Suspect.IsZero() {
		e := cl.event(KindConflict, c.store.Now())
		e.Holder, e.Detail, e.Remote = holder, cl.Detail+"; the claim is back in its place", true
		events = append(events, e)
	}
	cl.Suspect, cl.Due, cl.Detail = time.Time{}, time.Time{}, ""
	c.refresh(&cl, t)
	return cl, c.save(ctx, cl, events...)
}
