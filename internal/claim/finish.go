package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoReview is the error of a review where the board has no status for it.
var ErrNoReview = errors.New("the board has no status for work that waits for a person's decision: name one in tasks.statuses.review and restart the daemon; the claim goes on")

// Finish ends a claim the way its agent says. The claim comes back Ended; or
// still Finishing, if Notion could not be told now: then the finish is
// journalled and RunDue delivers it under the same check. Repeating a finish
// that took place returns the same claim. The error is a *Lost if the claim is
// no longer the agent's, in which case nothing was written to the task, and ErrNoReview
// if there is no status for what it says.
func (c *Claimer) Finish(ctx context.Context, id ID, f Finish) (Hold, error) {
	cl, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	if f.As == EndReview && !c.policy.Review {
		return Hold{}, ErrNoReview
	}
	f.At = c.store.Now()
	switch {
	case cl.State == Ended && cl.Ending == f.As:
		return cl, nil
	case cl.State == Finishing && cl.Finish.As != f.As:
		return Hold{}, NotHeld(cl)
	case cl.State != Held && cl.State != Finishing:
		return Hold{}, c.tooLate(ctx, cl, f)
	}
	work, cancel := c.detached(ctx)
	defer cancel()
	return c.finish(work, cl, f)
}

// lockClaim takes the lock of a claim's task and then reads the claim.
func (c *Claimer) lockClaim(ctx context.Context, id ID) (Hold, func(), error) {
	cl, err := c.Find(ctx, id)
	if err != nil {
		return Hold{}, nil, err
	}
	unlock, err := c.locks.lock(ctx, cl.Task.ID)
	if err != nil {
		return Hold{}, nil, err
	}
	if cl, err = c.Find(ctx, id); err != nil {
		unlock()
		return Hold{}, nil, err
	}
	return cl, unlock, nil
}

// NotHeld says why a claim that is not held cannot be worked with.
func NotHeld(cl Hold) *Lost {
	l := &Lost{Claim: cl, Detail: "it was never granted"}
	if cl.State == Finishing {
		l.Holder, l.Detail = cl.Agent, fmt.Sprintf("it was reported as %s, and Notion has yet to be told", cl.Finish.As)
	}
	if cl.State == Ended && cl.Ending != EndNotGranted {
		l.Holder, l.Detail = cl.LostTo, cmp.Or(cl.Detail, endings[cl.Ending])
	}
	return l
}

// endings says how claims end of which nothing else is said.
var endings = map[Ending]string{
	EndCompleted: "it was completed", EndReview: "it was put up for review", EndFailed: "it was reported as failed", EndBlocked: "it was reported as blocked",
	EndReleased: "it was given back", EndLost: "it was taken away", EndOverridden: "its lease ran out", EndSwept: "its lease ran out",
}

// finish journals what the agent said, unless it is journalled already, and delivers it if it
// can. The task is locked.
func (c *Claimer) finish(ctx context.Context, h Hold, f Finish) (Hold, error) {
	sent := h.State == Finishing
	if !sent {
		if f.As == EndFailed && f.Reopen {
			var err error
			f.History, err = c.exhausted(ctx, h.Task.ID, Try{Agent: h.Agent, At: f.At, Failed: true, Why: f.Summary})
			if err != nil {
				return Hold{}, err
			}
			f.Reopen = f.History == ""
		}
		h.State, h.Finish, h.Suspect = Finishing, &f, time.Time{}
		h.Due = c.store.Now()
		if err := c.save(ctx, h); err != nil {
			return Hold{}, err
		}
	}
	e := &errand{kind: Delivery, hold: h, sent: sent}
	switch err := c.run(ctx, e); {
	case errors.Is(err, errOwed):
		return e.hold, nil
	case isLost(err):
		return Hold{}, err
	default:
		return e.hold, err
	}
}

// tooLate answers the finish of a claim that is not held any more. Work done for
// one that somebody else ended is not forgotten: the task log gets it as
// orphaned, once, however often the agent says so.
func (c *Claimer) tooLate(ctx context.Context, cl Hold, f Finish) error {
	if cl.Taken() && f.isWork() && cl.Finish == nil { // else it was logged when the claim was lost
		e := cl.orphaned(f, c.store.Now(), cl.LostTo, cl.Detail)
		e.ID = string(cl.ID)
		if err := c.commit(ctx, Change{Facts: []Fact{e}}); err != nil {
			return fmt.Errorf("what was done under it could not be journalled: %w", err)
		}
	}
	return NotHeld(cl)
}

// isWork reports whether f tells of work that was done, or tried.
func (f Finish) isWork() bool { return f.As == EndCompleted || f.As == EndReview || f.As == EndFailed }

// orphaned is the fact of work that was finished for a claim that had been lost.
func (h Hold) orphaned(f Finish, at time.Time, holder, detail string) Fact {
	e := h.fact(KindOrphaned, at)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	e.Started, e.Finished, e.Summary = h.Started, f.At, f.Summary
	return e
}
