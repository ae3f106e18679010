package claim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"dibs/internal/task"
)

// watchTime is how long an abandoned write that never showed is watched for.
// Notion gives up on a request after a minute; the rest is caution.
const watchTime = 24 * time.Hour

// Between these, a step that is owed to Notion is tried again.
const (
	minRetry = 15 * time.Second
	maxRetry = 5 * time.Minute
)

// Recover takes up, once at the start, what an earlier run of the daemon left:
// a claim that was written but not granted is to be withdrawn, a finish to be
// delivered, each by the next RunDue.
func (c *Claimer) Recover(ctx context.Context) error {
	finishing := func(cl Claim) bool { return cl.State == Finishing }
	return errors.Join(
		c.eachLive(ctx, c.cutShort, func(cl Claim) error { return c.giveUp(ctx, cl) }),
		c.eachLive(ctx, finishing, func(cl Claim) error {
			cl.Due = c.store.Now()
			return c.save(ctx, cl)
		}),
	)
}

// cutShort reports whether cl is an attempt that nobody is making any more: an
// earlier run of the daemon was, or the ledger failed in the middle of it.
func (c *Claimer) cutShort(cl Claim) bool {
	_, underway := c.underway.Load(cl.ID)
	return (cl.State == Reserved || cl.State == Writing) && !underway
}

// giveUp ends an attempt that was cut short, or has it withdrawn if it may be
// in Notion.
func (c *Claimer) giveUp(ctx context.Context, cl Claim) error {
	e := cl.event(KindDenied, c.store.Now())
	e.Code, e.Detail, e.Remote = CodeNotionUnavailable, "the attempt was cut short before the claim was verified", true
	cl.Detail = e.Detail
	if cl.State == Reserved {
		_, err := c.end(ctx, cl, EndNotGranted, e.Detail, e)
		return err
	}
	cl.State, cl.Due = Abandoned, c.store.Now()
	return c.save(ctx, cl, e)
}

// RunDue takes the next step of every claim that is owed one: give up an attempt
// that was cut short, deliver a finish, mark an abandoned claim void, reopen a
// void task. Finishes are delivered in the order in which they were accepted. It
// returns the time of the earliest step that remains, zero if there is none.
func (c *Claimer) RunDue(ctx context.Context) (next time.Time, err error) {
	expired := func(cl Claim) bool {
		return cl.State == Abandoned && cl.Due.IsZero() && c.store.Now().Sub(cl.Reserved) > watchTime
	}
	due := func(cl Claim) bool {
		owed := cl.State == Abandoned || cl.State == Voided || cl.State == Finishing
		return owed && !cl.Due.IsZero() && !cl.Due.After(c.store.Now())
	}
	live, err := c.ledger.Live(ctx)
	if err != nil {
		return time.Time{}, err
	}
	away := false // whether Notion is; what is delivered after the one that found out would overtake it
	if slices.ContainsFunc(live, func(cl Claim) bool { return cl.State == Finishing && due(cl) }) {
		// The others take part, so that none is delivered before those accepted
		// earlier only because it was tried at a better moment.
		alone := due
		due = func(cl Claim) bool {
			if cl.State == Finishing {
				return !away && (alone(cl) || cl.Suspect.IsZero())
			}
			return alone(cl)
		}
	}
	err = errors.Join(
		c.eachLive(ctx, c.cutShort, func(cl Claim) error { return c.giveUp(ctx, cl) }),
		c.eachLive(ctx, due, func(cl Claim) error {
			err := c.resolve(ctx, cl)
			if errors.Is(err, errOwed) {
				away, err = errors.Is(err, errAway), nil
			}
			return err
		}),
		c.eachLive(ctx, expired, func(cl Claim) error {
			_, err := c.end(ctx, cl, EndNotGranted, cl.Detail)
			return err
		}),
	)
	live, lerr := c.ledger.Live(ctx)
	for _, cl := range live {
		if cl.Due.IsZero() || cl.State == Held || away && cl.State == Finishing && !cl.Due.After(c.store.Now()) {
			continue
		}
		if next.IsZero() || cl.Due.Before(next) {
			next = cl.Due
		}
	}
	return next, errors.Join(err, lerr)
}

// Sighted is told of a claim token that the mirror saw on a task. If it is that
// of an abandoned attempt whose write arrived after all, the attempt becomes
// due to be withdrawn, and Sighted returns true.
func (c *Claimer) Sighted(ctx context.Context, token string) (bool, error) {
	cl, err := c.unseen(ctx, token)
	if err != nil || cl.ID == "" {
		return false, err
	}
	unlock, err := c.locks.lock(ctx, cl.Task.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	cl.Task.Token = token
	return c.sighted(ctx, cl.Task)
}

// sighted is Sighted for a task that is locked, as a page shows it.
func (c *Claimer) sighted(ctx context.Context, t task.Task) (bool, error) {
	cl, err := c.unseen(ctx, t.Token)
	if err != nil || cl.ID == "" || cl.Task.ID != t.ID {
		return false, err
	}
	cl.Due = c.store.Now()
	return true, c.save(ctx, cl)
}

// unseen returns the abandoned claim of that token whose write has not been seen
// so far; a zero one if there is none.
func (c *Claimer) unseen(ctx context.Context, token string) (Claim, error) {
	tok := ParseToken(token)
	if tok.ID == "" || tok.Done {
		return Claim{}, nil
	}
	cl, err := c.ledger.Claim(ctx, tok.ID)
	if errors.Is(err, ErrUnknownClaim) || err == nil && (cl.State != Abandoned || !cl.Due.IsZero()) {
		return Claim{}, nil
	}
	return cl, err
}

// resolve takes one step for a claim that is owed one. The task is locked.
func (c *Claimer) resolve(ctx context.Context, cl Claim) error {
	var err error
	switch cl.State {
	case Finishing:
		_, err = c.deliver(ctx, cl, true)
		var lost *Lost
		if errors.As(err, &lost) {
			err = nil // an outcome, not a failure; the event says so
		}
	case Abandoned:
		err = c.void(ctx, cl)
	case Voided:
		err = c.unvoid(ctx, cl)
	}
	return err
}

// void marks an abandoned claim, so that nobody takes the task for held by a
// live agent for longer than needed, and a holder whose claim it covers can
// write its own back first. A claim whose lease is over is left to be overridden
// or swept.
func (c *Claimer) void(ctx context.Context, cl Claim) error {
	r, permit, ok, err := c.revisit(ctx, &cl)
	if !ok {
		return err
	}
	tok := c.token(cl, r.Task)
	switch {
	case tok.ID != cl.ID || r.Task.Trashed:
		// Not there, or no longer: somebody wrote over it, or it may still come.
		cl.Due = time.Time{}
		return c.save(ctx, cl)
	case tok.Done || r.Task.ClaimedBy != cl.Agent || c.policy.Over(r.Task, r.At):
		return c.overtaken(ctx, cl)
	case !tok.Void && !c.policy.NoToken: // without a token there is nothing to mark; the wait remains
		mark := voidMark(cl)
		if r, err = c.write(permit, cl.Task.ID, mark); err != nil || !mark.shows(r.Task, false) {
			return c.postpone(ctx, cl, err)
		}
	}
	cl.State, cl.Due = Voided, r.At.Add(c.policy.Grace)
	return c.save(ctx, cl)
}

// unvoid reopens the task of a voided claim, if the mark is still there, and
// still live: once it is stale, somebody may be about to override it.
func (c *Claimer) unvoid(ctx context.Context, cl Claim) error {
	r, permit, ok, err := c.revisit(ctx, &cl)
	if !ok {
		return err
	}
	tok := c.token(cl, r.Task)
	switch {
	case cl.Clearing && (r.Task.ClaimedBy == "" && r.Task.Token == "" || tok.ID != "" && tok.ID != cl.ID && !r.Task.Trashed):
		// The write that did it was not answered; and in the second case somebody
		// has claimed the task since, which nobody does under a live mark.
		return c.withdrawn(ctx, cl)
	case tok.ID != cl.ID || tok.Done || r.Task.ClaimedBy != cl.Agent || r.Task.Trashed || c.policy.Over(r.Task, r.At):
		return c.overtaken(ctx, cl)
	case r.At.Add(time.Second).Before(cl.Due):
		return nil // the clock here jumped ahead, and the answer has set it right
	}
	_, err = c.takeOff(ctx, permit, cl, r.Task)
	return err
}

// takeOff clears a voided claim from the page that shows t, and reports whether
// that is known to be done; if not, it is tried again.
func (c *Claimer) takeOff(ctx, permit context.Context, cl Claim, t task.Task) (bool, error) {
	w := clearWrite(task.Open)
	if t.Status != task.InProgress {
		w.Status = nil // somebody set it; only the claim is taken off
		if cl.Finish != nil {
			cl.Finish, cl.Detail = nil, "the mark of a sweep was there, and the task was not IN_PROGRESS any more"
		}
	}
	cl.Clearing = true
	if err := c.save(ctx, cl); err != nil {
		return false, err
	}
	answer, err := c.write(permit, cl.Task.ID, w.givingBack(cl, t))
	if err != nil || !w.shows(answer.Task, c.policy.NoToken) {
		return false, c.postpone(ctx, cl, err)
	}
	return true, c.withdrawn(ctx, cl)
}

// withdrawn closes a claim that is off its page. If it was that of a sweep, it
// closes the claim that was swept.
func (c *Claimer) withdrawn(ctx context.Context, cl Claim) error {
	if cl.Finish == nil {
		e := cl.event(KindWithdrawn, c.store.Now())
		e.Remote, e.Detail = true, cl.Detail
		_, err := c.end(ctx, cl, EndNotGranted, cl.Detail, e)
		return err
	}
	local, err := c.held(ctx, cl.Task)
	if err == nil && local.State == Held {
		_, err = c.end(ctx, local, EndSwept, cl.Finish.Summary)
	}
	e := cl.event(KindSwept, c.store.Now())
	e.Claim, e.Holder, e.Remote, e.Detail = cmp.Or(local.ID, ParseToken(cl.Task.Token).ID), cl.Agent, true, cl.Finish.Summary
	_, eerr := c.end(ctx, cl, EndSwept, cl.Finish.Summary, e)
	return errors.Join(err, eerr, c.forestall(ctx, cl))
}

// forestall makes earlier sweeps of the task that cl has swept, whose marks may
// arrive yet, plain withdrawals: they have nothing to sweep any more.
func (c *Claimer) forestall(ctx context.Context, cl Claim) error {
	live, err := c.ledger.Live(ctx)
	for _, old := range live {
		if old.Task.ID == cl.Task.ID && old.State == Abandoned && old.Finish != nil {
			old.Finish, old.Detail = nil, "its mark came when a later sweep was done"
			err = errors.Join(err, c.save(ctx, old))
		}
	}
	return err
}

// overtaken closes a claim that is not this daemon's to withdraw any more.
func (c *Claimer) overtaken(ctx context.Context, cl Claim) error {
	_, err := c.end(ctx, cl, EndNotGranted, "its task was taken back, changed or free to be taken before the withdrawal was complete")
	return err
}

// revisit reads the page of a claim that is owed a step, with a permit left for
// the write. ok is false if there is nothing to be done now.
func (c *Claimer) revisit(ctx context.Context, cl *Claim) (r Reading, permit context.Context, ok bool, err error) {
	if permit, err = c.store.Permit(ctx, 2); err != nil {
		return r, nil, false, c.postpone(ctx, *cl, err)
	}
	watch := startWatch()
	r, err = c.get(permit, cl.Task.ID)
	switch {
	case err != nil && storeKind(err) == NotFound:
		_, err = c.end(ctx, *cl, EndNotGranted, err.Error())
		return r, nil, false, err
	case err != nil:
		return r, nil, false, c.postpone(ctx, *cl, err)
	case watch.elapsed() >= c.policy.WriteWindow:
		return r, nil, false, c.postpone(ctx, *cl, nil)
	}
	return r, permit, true, nil
}

// postpone puts the next step of a claim off after a failure.
func (c *Claimer) postpone(ctx context.Context, cl Claim, cause error) error {
	cl.Due = c.later(cl.Reserved, cause)
	return errors.Join(cause, c.save(ctx, cl))
}

// later is when to try again what has been owed since then: when the store says,
// which knows best when Notion will be there; else at first soon, and the longer
// it is owed the less often.
func (c *Claimer) later(since time.Time, cause error) time.Time {
	now := c.store.Now()
	if wait := retryAfter(cause); wait > 0 {
		return now.Add(wait)
	}
	return now.Add(min(max(now.Sub(since), minRetry), maxRetry))
}

// eachLive calls do, under the task's lock, for every live claim that pick
// chooses; what pick leaves out is not waited for. Those that are being finished
// come last, in the order in which that began. It goes on after an error and
// returns the errors joined.
func (c *Claimer) eachLive(ctx context.Context, pick func(Claim) bool, do func(Claim) error) error {
	live, err := c.ledger.Live(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(live, func(a, b Claim) int { return a.finishing().Compare(b.finishing()) })
	var errs []error
	for _, cl := range live {
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

// finishing is when the agent said that it was done; zero if it has not.
func (cl Claim) finishing() time.Time {
	if cl.Finish == nil {
		return time.Time{}
	}
	return cl.Finish.At
}
