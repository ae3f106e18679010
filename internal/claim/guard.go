package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/clock"
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
		if s, _, _ := c.look(cl, *seen, c.store.Now()); s == mine && c.fresh(cl, *seen) {
			return nil
		}
	}
	return c.guard(ctx, cl)
}

// repairTries is how often a claim is written back at one look. A holder has to
// get through within the grace of whoever covered its claim.
const repairTries = 3

// guard reads the page of a held claim and acts on what it shows.
func (c *Claimer) guard(ctx context.Context, cl Hold) error {
	for try := 1; ; try++ {
		var again bool
		var err error
		if cl, again, err = c.guardOnce(ctx, cl); !again || try == repairTries {
			return err
		}
		if err := clock.Pause(ctx, c.policy.Settle); err != nil {
			return err
		}
	}
}

// guardOnce looks once. again means that the claim is covered, and not yet seen
// back in its place.
func (c *Claimer) guardOnce(ctx context.Context, cl Hold) (_ Hold, again bool, err error) {
	v, err := c.visit(ctx, cl.Task.ID, 0)
	if err != nil {
		if storeKind(err) == NotFound {
			if err = c.askAgain(ctx, cl.Task.ID); err != nil && storeKind(err) == NotFound {
				_, err = c.lose(ctx, cl, task.Task{}, "", err.Error())
			}
		}
		return cl, false, err
	}
	defer v.Close()
	s, _, _ := c.look(cl, v.Task, v.judged())
	if s == mine {
		cl, err = c.stands(ctx, cl, v.Task, "")
		return cl, false, err
	}
	cl, err = c.mend(ctx, v, cl)
	return cl, s == covered && !cl.Suspect.IsZero(), err
}

// mend acts on a page that does not show the held claim cl as it should: it
// writes the claim back if an abandoned one lies over it, bears with a suspected
// late write for a grace, and otherwise closes the claim and returns a *Lost.
func (c *Claimer) mend(ctx context.Context, v *visit, cl Hold) (Hold, error) {
	s, holder, detail := c.look(cl, v.Task, v.judged())
	patient := c.bearWith(&cl, detail)
	if s != covered && (s != suspect || !patient) {
		return c.loseOn(ctx, v, cl, holder, detail)
	}
	// Until it is seen in its place, the claim stays under suspicion, and is
	// looked at again; writing it twice does no harm.
	err := v.save(ctx, cl)
	if err != nil || s == suspect {
		return cl, err
	}
	answer, f, err := v.write(restoreWrite(cl, v.Task))
	switch {
	case errors.Is(err, errSlow), errors.Is(err, errNoEffect):
		return cl, nil // it is tried again
	case f == notLanded:
		return cl, err
	case f == unknown:
		return cl, fmt.Errorf("claim %s: the write that puts it back %w", cl.ID, err)
	}
	if late, ok := c.late(v.Task); ok { // a write lands once
		if err := c.overtaken(ctx, late); err != nil {
			return cl, err
		}
	}
	return c.stands(ctx, cl, answer.Task, holder)
}

// stands takes over what t says about a claim that it shows. If it did not show
// it before, the claim was repaired; holder is whose claim lay over it.
func (c *Claimer) stands(ctx context.Context, cl Hold, t task.Task, holder string) (Hold, error) {
	var facts []Fact
	if !cl.Suspect.IsZero() {
		e := cl.fact(KindConflict, c.store.Now())
		e.Holder, e.Detail, e.Remote = holder, cl.Detail+"; the claim is back in its place", true
		facts = append(facts, e)
	}
	cl.Suspect, cl.Due, cl.Detail = time.Time{}, time.Time{}, ""
	c.refresh(&cl, t)
	return cl, c.save(ctx, cl, facts...)
}
