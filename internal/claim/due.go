package claim

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Between these, a step that is owed to Notion is tried again.
const (
	minRetry = 3 * time.Second
	maxRetry = 5 * time.Minute
)

// leastHeldBack is the least time before that while the store sends nothing: Hasten is
// called when it does again.
const leastHeldBack = 15 * time.Second

// RunDue takes the next step of every claim that is owed one: give up an attempt
// that was cut short, deliver a finish, mark an abandoned claim void, take a void
// one off its page, forget one that never showed. Finishes are delivered in the
// order in which they were accepted. It returns the time of the earliest step that
// remains, zero if there is none.
func (c *Claimer) RunDue(ctx context.Context) (next time.Time, err error) {
	away := false // whether Notion is; what is delivered after the finish that found out would overtake it
	due := func(cl Hold) bool {
		at, owed := cl.step()
		switch {
		case !owed || at.After(c.store.Now()) || cl.State == Finishing && away:
			return false
		case cl.attempting():
			return c.cutShort(cl)
		}
		return true
	}
	work := c.book.until(c.book.steps, c.store.Now())
	finishes := slices.ContainsFunc(work, func(cl Hold) bool { return cl.State == Finishing })
	work = slices.DeleteFunc(work, func(cl Hold) bool { return cl.State == Finishing })
	err = c.each(ctx, work, due, func(cl Hold) error { return c.resolve(ctx, cl) })
	if finishes {
		// The others take part, so that none is delivered before those accepted
		// earlier only because it was tried at a better moment.
		ours := func(cl Hold) bool {
			return cl.State == Finishing && !away && (due(cl) || cl.Suspect.IsZero())
		}
		err = errors.Join(err, c.each(ctx, c.Finishing(), ours, func(cl Hold) error {
			err := c.resolve(ctx, cl)
			if errors.Is(err, errOwed) {
				away, err = errors.Is(err, errAway), nil
			}
			return err
		}))
	}
	next = c.book.first(c.book.steps, time.Time{}, func(cl Hold) bool {
		return !cl.attempting() && !(away && cl.State == Finishing && !cl.Due.After(c.store.Now()))
	})
	return next, err
}

// Hasten makes the first of the finishes due that wait until Notion can be told: it is
// back. RunDue delivers the others with it.
func (c *Claimer) Hasten(ctx context.Context) error {
	waits := func(cl Hold) bool {
		return cl.State == Finishing && cl.Suspect.IsZero() && cl.Due.After(c.store.Now())
	}
	owed := c.Finishing()
	first := slices.IndexFunc(owed, waits)
	if first < 0 {
		return nil
	}
	return c.each(ctx, owed[first:first+1], waits, func(cl Hold) error {
		cl.Due = c.store.Now()
		return c.save(ctx, cl)
	})
}

// forever is later than anything.
var forever = time.Unix(1<<40, 0)

// resolve takes one step for a claim that is owed one. The task is locked.
func (c *Claimer) resolve(ctx context.Context, cl Hold) error {
	var err error
	switch cl.State {
	case Finishing:
		_, err = c.deliver(ctx, cl, true)
		if _, ok := errors.AsType[*Lost](err); ok {
			err = nil // an outcome, not a failure; the fact says so
		}
	case Reserved, Writing:
		err = c.giveUp(ctx, cl)
	case Abandoned:
		err = c.void(ctx, cl)
	case Voided, Clearing:
		err = c.unvoid(ctx, cl)
	case Unseen:
		err = c.forget(ctx, cl)
	}
	return err
}

// postpone puts the next step of a claim off after a failure.
func (c *Claimer) postpone(ctx context.Context, cl Hold, cause error) error {
	if notSaved(cause) { // nor can this be
		return cause
	}
	cl.Due = c.later(cl.Reserved, cause)
	return errors.Join(cause, c.save(ctx, cl))
}

// later is when to try again what has been owed since then: when the store says,
// which knows best when Notion will be there; else at first soon, and the longer
// it is owed the less often.
func (c *Claimer) later(since time.Time, cause error) time.Time {
	now := c.store.Now()
	if wait := RetryAfter(cause); wait > 0 {
		return now.Add(max(wait, leastHeldBack))
	}
	return now.Add(min(max(now.Sub(since), minRetry), maxRetry))
}

// each calls do, under the task's lock, for those of the claims that pick chooses
// both before and after it has waited for the lock; what pick leaves out is not
// waited for. It goes on after an error and returns the errors joined.
func (c *Claimer) each(ctx context.Context, claims []Hold, pick func(Hold) bool, do func(Hold) error) error {
	var errs []error
	for _, cl := range claims {
		if !pick(cl) {
			continue
		}
		cl, unlock, err := c.lockClaim(ctx, cl.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if cl.State != Ended && pick(cl) {
			errs = append(errs, do(cl))
		}
		unlock()
	}
	return errors.Join(errs...)
}
