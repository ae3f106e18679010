package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoReview is the error of a review on a board without a status for it.
var ErrNoReview = errors.New("the board has no status for work that waits for a person's decision: name one in tasks.statuses.review and restart the daemon; the claim goes on")

// Finish ends a claim as its agent says, or somebody in its place. The returned claim is Ended, or
// still Finishing if Notion could not be told now: then the finish is journalled, and RunDue
// delivers it under the same check. Repeating a finish that took place returns the same claim. The
// error is a *Lost if the claim was over, or being ended by somebody else; then nothing was written
// to the task. It is ErrNoReview for a review if the board has no status for it.
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
	repeated := cl.Finish != nil && cl.Finish.As == f.As && cl.Finish.By == f.By
	switch {
	case cl.State == Ended && cl.Ending == f.Ending() && repeated:
		return cl, nil
	case cl.State != Held && !(cl.State == Finishing && repeated):
		return Hold{}, c.tooLate(ctx, cl, f)
	}
	work, cancel := c.detached(ctx)
	defer cancel()
	return c.finish(work, cl, f)
}

// lockClaim locks a claim's task and then reads the claim.
func (c *Claimer) lockClaim(ctx context.Context, id ID) (Hold, func(), error) {
	cl, err := c.Find(ctx, id)
	if err != nil {
		return Hold{}, nil, err
	}
	unlock, err := c.locks.Lock(ctx, cl.Task.ID)
	if err != nil {
		return Hold{}, nil, err
	}
	if cl, err = c.Find(ctx, id); err != nil {
		unlock()
		return Hold{}, nil, err
	}
	return cl, unlock, nil
}

// NotHeld returns the error of an operation that needs a held claim.
func NotHeld(cl Hold) *Lost {
	l := &Lost{Claim: cl, Detail: "it was never granted"}
	switch {
	case cl.State == Finishing && cl.Taken():
		l.Detail = cl.Finish.Taking()
	case cl.State == Finishing:
		l.Holder, l.Detail = cl.Agent, fmt.Sprintf("it was reported as %s, and Notion has yet to be told", cl.Finish.As)
	}
	if cl.State == Ended && cl.Ending != EndNotGranted {
		l.Holder, l.Detail = cl.LostTo, cmp.Or(cl.Detail, endings[cl.Ending])
	}
	return l
}

// endings words the endings of claims that have no Detail.
var endings = map[Ending]string{
	EndCompleted: "it was completed", EndReview: "it was put up for review", EndFailed: "it was reported as failed", EndBlocked: "it was reported as blocked",
	EndReleased: "it was given back", EndLost: "it was taken away", EndOverridden: "its lease ran out", EndSwept: "its lease ran out",
}

// finish journals what was said, unless that is journalled already, and tries to deliver it. If
// the claim is taken from its agent, that is on record at once: the agent stops even while Notion
// cannot be told. The task is locked.
func (c *Claimer) finish(ctx context.Context, h Hold, f Finish) (Hold, error) {
	sent := h.State == Finishing
	if !sent {
		if again := f.As == EndFailed && f.Reopen; again || f.Unkept() {
			var err error
			f.History, err = c.exhausted(ctx, h.Task.ID, Try{Agent: h.Agent, At: f.At, Failed: again, Why: f.Summary})
			if err != nil {
				return Hold{}, err
			}
			f.Reopen = again && f.History == ""
		}
		h.State, h.Finish, h.Suspect = Finishing, &f, time.Time{}
		h.Due = c.store.Now()
		var facts []Fact
		if h.Taken() {
			lost := h.lost(f.At, f.By, f.Taking(), f.User)
			switch {
			case f.History != "":
				lost.Tried = TriedOver
			case f.Unkept():
				lost.Tried = TriedAgain
			}
			facts = append(facts, lost)
		}
		if err := c.save(ctx, h, facts...); err != nil {
			return Hold{}, err
		}
	}
	e := &errand{kind: Delivery, hold: h, sent: sent}
	switch err := c.run(ctx, e); {
	case isLost(err):
		return Hold{}, err
	case !Asked(err):
		return e.hold, nil
	default:
		return e.hold, err
	}
}

// tooLate returns the error of a finish for a claim that is no longer held. If somebody else
// ended the claim, the work is not forgotten: it is recorded as orphaned in the task log, once,
// however often the agent repeats it.
func (c *Claimer) tooLate(ctx context.Context, cl Hold, f Finish) error {
	if cl.Taken() && f.isWork() && cl.Said() == nil { // else it was logged when the claim was lost
		e := cl.orphaned(f, c.store.Now(), cl.LostTo, cl.Detail)
		if err := c.commit(ctx, Change{Facts: []Fact{e}}); err != nil {
			return fmt.Errorf("what was done under it could not be journalled: %w", err)
		}
	}
	return NotHeld(cl)
}
