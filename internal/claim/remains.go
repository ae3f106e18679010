package claim

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/task"
)

// What people do to a card leaves parts of a claim on it that is over: its name on a task
// that was set to OPEN, its date under another name, all of it after an undo. To everybody
// else that is a live claim. The daemon that had it knows better, and takes the parts off,
// always while the lease that they show is live: nobody else takes the task then, and a
// write that is sent then is out of the way before anybody may.

// live reports whether nobody takes the task for as long as the page shows this: it has a
// lease that is not over, by a time that is known, or a claim whose date somebody cleared.
func (v *visit) live() bool {
	if undated(v.Task) {
		return true
	}
	end := v.claimer.policy.LeaseEnd(v.Task)
	return !v.Unsure && v.At.Before(end)
}

// undated reports whether t shows a claim whose date somebody cleared, which is refused to
// everybody.
func undated(t task.Task) bool {
	return t.Status == task.InProgress && t.ClaimedBy != "" && t.ClaimedAt.IsZero() && !t.Trashed && Assignee(t) == ""
}

// loseOn is lose for a claim whose page v has seen. What people left of it there is taken
// off at once. That it is lost does not depend on this: what cannot be done now Tidy does
// later.
func (c *Claimer) loseOn(ctx context.Context, v *visit, cl Hold, holder, detail string) (Hold, error) {
	w, event, ok := c.leaving(v, cl)
	out, err := c.lose(ctx, cl, v.Task, holder, detail)
	if _, lost := errors.AsType[*Lost](err); !lost || !ok {
		return out, err
	}
	if werr := c.leave(ctx, v, cl, w, event); werr != nil {
		c.log.Warn("what is left of a lost claim could not be taken off its page yet", "claim", cl.ID, "task", cl.Task.ID, "error", werr)
	}
	return out, err
}

// leaving is the write that takes what is left of the lost claim cl off the page that v has
// seen, and what is to be said of it; false if there is nothing to be written. A task that
// was finished or blocked keeps the name of who had it, for people to see.
func (c *Claimer) leaving(v *visit, cl Hold) (w Write, what string, ok bool) {
	t := v.Task
	tok := ParseToken(t.Token)
	if c.policy.NoToken && t.ClaimedBy == cl.Agent {
		tok = c.token(cl, t)
	}
	if t.Trashed || tok.ID != cl.ID || tok.Done || t.ClaimedBy == "" || !v.live() {
		return Write{}, "", false
	}
	if t.Status == task.Open || t.Status == task.InProgress {
		return leavingWrite(cl.Agent, t).givingBack(cl, t), leftTo(cl.Agent, t), true
	}
	return Write{}.givingBack(cl, t), "", cl.borrows(t)
}

// leftTo says what becomes of a task of which a claim of agent is taken off.
func leftTo(agent string, t task.Task) string {
	switch {
	case t.ClaimedBy != agent:
		return fmt.Sprintf("%s put another name on it and has it now, without a time limit", t.ClaimedBy)
	case t.Status == task.Open:
		return "it was set to OPEN, and can be claimed again"
	}
	return "it is OPEN again, and can be claimed"
}

// leave writes what takes the claim of off the page that v has seen, and records it as
// what is to be said.
func (c *Claimer) leave(ctx context.Context, v *visit, of Hold, w Write, what string) error {
	answer, f, err := v.write(w)
	switch f {
	case notLanded:
		return err
	case unknown:
		return fmt.Errorf("the write that takes it off %w", err)
	}
	if err := c.repaid(ctx, answer.Task); err != nil || what == "" {
		return err
	}
	return c.ledger.Record(context.WithoutCancel(ctx), c.cleared(of, answer.Task, what))
}

// cleared is the fact of what was left of a claim being off the page that shows t. A copy
// of the page of a claim has nothing to do with that claim, nor with its agent.
func (c *Claimer) cleared(of Hold, t task.Task, what string) Fact {
	copied := of.Task.ID != t.ID
	of.Task = t
	e := of.fact(KindCleared, c.store.Now())
	e.Remote, e.Detail = true, what
	if copied {
		e.Claim, e.Holder, e.Agent = "", of.Agent, ""
	}
	return e
}

// Tidy takes off a page what it shows of a claim of this ledger that is over, or that was
// made on another page, of which this one is a copy: to everybody else the task would be
// held until that lease ends. seen is the task as the mirror has it; unless it shows such a
// thing, nothing is asked of Notion. It reports whether anything was written.
//
// A claim that is over may be on its page because of an undo, or because a write of it
// came late, over a claim that lives. So it is taken off in two steps, like one that was
// given up: it is marked void, and RunDue reopens the task after the grace.
func (c *Claimer) Tidy(ctx context.Context, seen task.Task) (tidied bool, err error) {
	if c.policy.Over(seen, c.store.Now()) {
		return false, nil // it is left to be overridden or swept
	}
	if _, ok, err := c.remains(ctx, seen); !ok || err != nil {
		return false, err
	}
	unlock, err := c.locks.lock(ctx, seen.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	v, err := c.visit(ctx, seen.ID, 0)
	if err != nil {
		if kind := storeKind(err); kind == NotFound || kind == Trashed {
			err = nil
		}
		return false, err
	}
	defer v.Close()
	of, ok, err := c.remains(ctx, v.Task)
	if !ok || err != nil || !v.live() {
		return false, err
	}
	switch t := v.Task; {
	case of.Task.ID != t.ID:
		what := leftTo(of.Agent, t) + "; its claim was a copy of one on another task"
		return true, c.leave(ctx, v, of, leavingWrite(of.Agent, t), what)
	case of.Agent != t.ClaimedBy:
		return true, c.leave(ctx, v, of, leavingWrite(of.Agent, t).givingBack(of, t), leftTo(of.Agent, t))
	}
	return true, c.voidOver(ctx, v, of)
}

// remains returns the claim, of this ledger, that t shows without right: it is over, or
// on another task. There is none where the lease does not matter, and where nobody's name
// is shown.
func (c *Claimer) remains(ctx context.Context, t task.Task) (of Hold, ok bool, err error) {
	tok := ParseToken(t.Token)
	switch {
	case c.policy.NoToken, tok.ID == "", t.Trashed, t.ClaimedBy == "", t.ClaimedAt.IsZero() && !undated(t),
		t.Status != task.Open && t.Status != task.InProgress, t.Status == task.Open && tok.Done:
		return Hold{}, false, nil
	}
	of, err = c.Find(ctx, tok.ID)
	if errors.Is(err, ErrUnknownClaim) {
		return Hold{}, false, nil
	}
	return of, err == nil && (of.State == Ended || of.Task.ID != t.ID), err
}

// voidOver marks a claim void that is over and shows on the page that v has seen.
func (c *Claimer) voidOver(ctx context.Context, v *visit, of Hold) error {
	now := c.store.Now()
	cl := Hold{
		ID: NewID(now), Agent: of.Agent, Task: v.Task, State: Abandoned, Reserved: now, Due: now,
		Lease:    Lease{ClaimedAt: v.Task.ClaimedAt, Requested: of.Requested, Own: of.Own},
		Assigned: of.Assigned && of.Started.IsZero(), // and not used up by a claim that was granted
		Sweep:    &Sweep{Reason: "the card showed this claim although it was over", Of: of.ID},
	}
	if err := v.save(ctx, cl); err != nil {
		return err
	}
	_, f, err := v.write(voidMark(cl))
	switch f {
	case seen:
		cl.State, cl.Due = Voided, v.At.Add(c.policy.Grace)
		return c.save(ctx, cl)
	case notLanded:
		_, eerr := c.end(ctx, cl, EndNotGranted, err.Error())
		return errors.Join(err, eerr)
	}
	return fmt.Errorf("the void mark %w", err) // RunDue looks whether it is there
}

// stepAside takes the mark cl off a page on which somebody has put another name meanwhile,
// as far as the lease that it shows still keeps everybody else away.
func (c *Claimer) stepAside(ctx context.Context, v *visit, cl Hold) error {
	if v.Task.ClaimedBy == "" || v.Task.Trashed || !v.live() {
		return c.overtaken(ctx, cl)
	}
	if _, _, err := v.write(leavingWrite(cl.Agent, v.Task).givingBack(cl, v.Task)); err != nil {
		return c.postpone(ctx, cl, err)
	}
	e := c.cleared(cl, v.Task, leftTo(cl.Agent, v.Task))
	if cl.Sweep != nil {
		e.Claim = cl.Sweep.Of
	}
	_, err := c.end(ctx, cl, EndNotGranted, e.Detail, e)
	return err
}

// tidiedBy closes the mark under which what was left of a claim was taken off its page.
func (c *Claimer) tidiedBy(ctx context.Context, cl Hold) error {
	e := cl.fact(KindCleared, c.store.Now())
	e.Claim, e.Remote, e.Detail = cl.Sweep.Of, true, cl.Sweep.Reason
	_, err := c.end(ctx, cl, EndNotGranted, cl.Sweep.Reason, e)
	return err
}
