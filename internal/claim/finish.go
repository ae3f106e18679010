package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// finishTries is how often a finish is tried while its caller waits; after
// that it is delivered later.
const finishTries = 3

// Finish ends a claim the way its agent says. The claim comes back Ended; or
// still Finishing, if Notion could not be told now: then the finish is
// journalled and RunDue delivers it under the same check. Repeating a finish
// that took place returns the same claim. The error is a *Lost if the claim is
// no longer the agent's, in which case nothing was written to the task.
func (c *Claimer) Finish(ctx context.Context, id ID, f Finish) (Claim, error) {
	cl, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Claim{}, err
	}
	defer unlock()
	f.At = c.store.Now()
	switch {
	case cl.State == Ended && cl.Ending == f.As:
		return cl, nil
	case cl.State == Finishing && cl.Finish.As != f.As:
		return Claim{}, c.notHeld(cl)
	case cl.State != Held && cl.State != Finishing:
		return Claim{}, c.tooLate(ctx, cl, f)
	}
	work, cancel := c.detached(ctx)
	defer cancel()
	return c.finish(work, cl, f)
}

// lockClaim takes the lock of a claim's task and then reads the claim.
func (c *Claimer) lockClaim(ctx context.Context, id ID) (Claim, func(), error) {
	cl, err := c.ledger.Claim(ctx, id)
	if err != nil {
		return Claim{}, nil, err
	}
	unlock, err := c.locks.lock(ctx, cl.Task.ID)
	if err != nil {
		return Claim{}, nil, err
	}
	if cl, err = c.ledger.Claim(ctx, id); err != nil {
		unlock()
		return Claim{}, nil, err
	}
	return cl, unlock, nil
}

// notHeld says why a claim that is not held cannot be worked with.
func (c *Claimer) notHeld(cl Claim) *Lost {
	l := &Lost{Claim: cl, Detail: "it was never granted"}
	if cl.State == Finishing {
		l.Holder, l.Detail = cl.Agent, fmt.Sprintf("it is already being ended as %s", cl.Finish.As)
	}
	if cl.State == Ended && cl.Ending != EndNotGranted {
		l.Detail = "it ended: " + string(cl.Ending)
		if cl.Detail != "" {
			l.Detail += ", " + cl.Detail
		}
	}
	return l
}

// finish journals the intent, unless there is one already, and delivers it if it
// can. The task is locked.
func (c *Claimer) finish(ctx context.Context, cl Claim, f Finish) (Claim, error) {
	sent := cl.State == Finishing
	if !sent {
		cl.State, cl.Finish, cl.Suspect = Finishing, &f, time.Time{}
		cl.Due = c.store.Now()
		if err := c.save(ctx, cl); err != nil {
			return Claim{}, err
		}
	}
	cl, err := c.deliver(ctx, cl, sent)
	if errors.Is(err, errOwed) {
		err = nil
	}
	return cl, err
}

// What deliver says of a finish that is to be tried again.
var (
	errOwed = errors.New("not delivered yet")
	errAway = fmt.Errorf("%w: nothing can be asked of Notion", errOwed)
)

// deliver writes what the agent said when it was done, if the claim still
// stands. sent says that it may have been written before: then a page that
// shows as much, which would otherwise be a person's doing, is the effect of it.
// If it has to be tried again, the error is errOwed; errAway, if no request could be
// made.
func (c *Claimer) deliver(ctx context.Context, cl Claim, sent bool) (Claim, error) {
	w := finishWrite(cl)
	owed := func(err error) (Claim, error) {
		cl.Due = c.later(cl.Finish.At, err)
		if err != nil {
			cl.Detail = err.Error()
		}
		if err := c.save(ctx, cl); err != nil {
			return cl, err
		}
		return cl, errOwed
	}
	var failure error
	for range finishTries {
		permit, err := c.store.Permit(ctx, 2)
		if err != nil {
			cl, err := owed(err)
			if errors.Is(err, errOwed) {
				err = errAway
			}
			return cl, err
		}
		watch := startWatch()
		r, err := c.get(permit, cl.Task.ID)
		if storeKind(err) == NotFound && err != nil {
			return c.lose(ctx, cl, "", err.Error())
		} else if err != nil {
			return owed(err)
		}
		s, holder, detail := c.look(ctx, cl, r.Task, r.At)
		switch {
		case s == done, sent && w.shows(r.Task, c.policy.NoToken), sent && s == suspect && *w.Status == task.Open:
			// The last: the task was given back, and somebody claimed it since.
			cl.Task = r.Task
			return c.finished(ctx, cl)
		case s == suspect:
			if c.bearWith(&cl, detail) {
				return cl, c.save(ctx, cl)
			}
			return c.lose(ctx, cl, holder, detail)
		case s == gone:
			return c.lose(ctx, cl, holder, detail)
		case c.policy.Over(r.Task, r.At):
			// Somebody may be about to override it: only who has a live claim
			// can take it off the page without harm to others.
			renewed, err := c.renew(ctx, cl)
			var lost *Lost
			if errors.As(err, &lost) {
				return Claim{}, err
			} else if err != nil {
				return owed(err)
			}
			cl = renewed
			continue
		}
		if watch.elapsed() >= c.policy.WriteWindow {
			continue
		}
		answer, err := c.write(permit, cl.Task.ID, w.givingBack(cl, r.Task))
		if err == nil && w.shows(answer.Task, c.policy.NoToken) {
			cl.Task = answer.Task
			return c.finished(ctx, cl)
		}
		failure = err
		if err == nil || landed(err) != LandedNo {
			sent = true
			// It may show on the next reading, and a write on its way gets the
			// time to arrive.
			if err := pause(ctx, c.policy.Settle); err != nil {
				return owed(err)
			}
		}
	}
	return owed(failure)
}

// bearWith reports whether a suspected late write over the claim should be
// given time to be withdrawn, and notes since when it is there.
func (c *Claimer) bearWith(cl *Claim, detail string) bool {
	now := c.store.Now()
	if cl.Suspect.IsZero() {
		cl.Suspect = now
	}
	// It is looked at often enough to see the void mark before the task is
	// reopened, a grace after the mark was made.
	until := cl.Suspect.Add(c.policy.Grace)
	cl.Due, cl.Detail = now.Add(c.policy.Grace/3), detail
	return now.Before(until)
}

// finishWrite is the write that cl.Finish asks for. Completing keeps the name
// on the task, for people to see who did it; everything else clears the claim.
func finishWrite(cl Claim) Write {
	switch cl.Finish.As {
	case EndCompleted:
		return Write{Status: new(task.Completed), ClaimedBy: new(cl.Agent), Token: new(donePrefix + string(cl.ID))}
	case EndBlocked:
		return clearWrite(task.Blocked)
	case EndFailed:
		if !cl.Finish.Reopen {
			return clearWrite(task.Blocked)
		}
	}
	return clearWrite(task.Open)
}

var finishKinds = map[Ending]Kind{
	EndCompleted: KindCompleted, EndFailed: KindFailed, EndBlocked: KindBlocked, EndReleased: KindReleased,
}

// finished closes a claim whose finish is in Notion.
func (c *Claimer) finished(ctx context.Context, cl Claim) (Claim, error) {
	e := cl.event(finishKinds[cl.Finish.As], c.store.Now())
	e.Remote, e.Started, e.Finished, e.Summary = true, cl.Started, cl.Finish.At, cl.Finish.Summary
	return c.end(ctx, cl, cl.Finish.As, "", e)
}

// lose closes a claim that somebody else ended, and returns a *Lost. Work that
// was finished meanwhile is not forgotten: the task log gets it as orphaned.
func (c *Claimer) lose(ctx context.Context, cl Claim, holder, detail string) (Claim, error) {
	now := c.store.Now()
	e := cl.event(KindLost, now)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	events := []Event{e}
	if f := cl.Finish; f != nil && f.isWork() {
		events = append(events, cl.orphaned(*f, now, holder, detail))
	}
	cl, err := c.end(ctx, cl, EndLost, detail, events...)
	if err != nil {
		return Claim{}, err
	}
	return Claim{}, &Lost{Claim: cl, Holder: holder, Detail: detail}
}

// tooLate answers the finish of a claim that is not held any more. Work done for
// one that somebody else ended is not forgotten: the task log gets it as
// orphaned, once, however often the agent says so.
func (c *Claimer) tooLate(ctx context.Context, cl Claim, f Finish) error {
	taken := cl.Ending == EndLost || cl.Ending == EndOverridden || cl.Ending == EndSwept
	if taken && f.isWork() && cl.Finish == nil { // else it was logged when the claim was lost
		e := cl.orphaned(f, c.store.Now(), "", cl.Detail)
		e.ID = string(cl.ID)
		if err := c.ledger.Record(context.WithoutCancel(ctx), e); err != nil {
			return fmt.Errorf("claim %s: what was done could not be journalled: %w", cl.ID, err)
		}
	}
	return c.notHeld(cl)
}

// isWork reports whether f tells of work that was done, or tried.
func (f Finish) isWork() bool { return f.As == EndCompleted || f.As == EndFailed }

// orphaned is the event of work that was finished for a claim that had been lost.
func (c Claim) orphaned(f Finish, at time.Time, holder, detail string) Event {
	e := c.event(KindOrphaned, at)
	e.Holder, e.Detail, e.Remote = holder, detail, true
	e.Started, e.Finished, e.Summary = c.Started, f.At, f.Summary
	return e
}
