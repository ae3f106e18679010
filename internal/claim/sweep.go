package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// Sweep puts one task with a stale claim back to OPEN, or to BLOCKED if it was tried as
// often as it may be (Policy.MaxAttempts), and clears the claim, after reading the page:
// only a task that is IN_PROGRESS, and whose lease is stale at that moment, is touched. It
// returns who held the task. swept is false if there was nothing to do, or if the mark was
// written and RunDue finishes the sweep later. A finish that is owed to Notion is left to
// be delivered first.
//
// Somebody may be about to override a stale claim, and a task that is reopened
// under a new holder would be claimed by a third. So a sweep competes for the
// task like a claim, with a void mark of its own that makes the stale claim
// live: once the mark has settled nobody else has the task or will get it, and
// the claim can be cleared. A mark that lands late is withdrawn like a claim.
func (c *Claimer) Sweep(ctx context.Context, id task.ID) (former string, swept bool, err error) {
	return c.SweepFor(ctx, id, "", "")
}

// SweepFor is Sweep with a note for the record, and by whom it was asked for, as Fact.By has
// it. Either may be empty.
func (c *Claimer) SweepFor(ctx context.Context, id task.ID, note, by string) (former string, swept bool, err error) {
	unlock, err := c.locks.lock(ctx, id)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	cl, marked, err := c.mark(ctx, id, note, by)
	if !marked {
		return "", false, err
	}
	if err := clock.Pause(ctx, c.policy.Settle); err != nil {
		return "", false, err
	}
	if swept, err = c.reopenMarked(ctx, cl); !swept {
		return "", false, err
	}
	return cl.Agent, true, nil
}

// mark puts the mark of a sweep on a page that shows a stale claim, and reports
// whether it is known to be there.
func (c *Claimer) mark(ctx context.Context, id task.ID, note, by string) (_ Hold, marked bool, err error) {
	now := c.store.Now()
	cl := Hold{ID: NewID(now), Task: task.Task{ID: id}, Reserved: now, Sweep: &Sweep{}}
	v, err := c.visit(ctx, id, 0)
	if err != nil {
		if storeKind(err) == NotFound {
			err = nil
		}
		return Hold{}, false, err
	}
	defer v.Close()
	t := v.Task
	if t.Trashed || t.Status != task.InProgress || !c.policy.Stale(t, v.judged()) || v.late() {
		return Hold{}, false, nil
	}
	if local := c.held(t); local.State == Finishing {
		return Hold{}, false, nil
	}

	history, err := c.exhausted(ctx, id, c.staleTry(t))
	if err != nil {
		return Hold{}, false, err
	}
	return c.markStale(ctx, v, cl.ID, history, note, by)
}

// staleTry is the try that ended with the stale claim that t shows.
func (c *Claimer) staleTry(t task.Task) Try {
	return Try{Agent: t.ClaimedBy, At: c.policy.LeaseEnd(t)}
}

// markStale puts the mark of a sweep on the page that v has seen, which shows a stale
// claim. The mark gets that id. The history is as in a Sweep, and note and by as
// SweepFor takes them.
func (c *Claimer) markStale(ctx context.Context, v *visit, id ID, history, note, by string) (cl Hold, marked bool, err error) {
	t := v.Task
	lender, _ := c.lender(ctx, t, "")
	reason := "its lease ran out at " + c.policy.LeaseEnd(t).UTC().Format("15:04 UTC on Jan 2")
	if note != "" {
		reason += "; " + note
	}
	return c.putMark(ctx, v, Hold{
		ID: id, Agent: t.ClaimedBy, Task: t, Reserved: c.store.Now(),
		Lease: Lease{Requested: lender.Requested, Own: lender.Own},
		Sweep: &Sweep{Reason: reason, History: history, By: by},
	})
}

// putMark puts the mark cl on the page that v has seen, as a claim is put there, and reports
// whether it is known to be there.
func (c *Claimer) putMark(ctx context.Context, v *visit, cl Hold) (_ Hold, marked bool, err error) {
	now := c.store.Now()
	cl.State, cl.Due, cl.ClaimedAt = Abandoned, now.Add(c.policy.Grace), now
	if err := v.save(ctx, cl); err != nil {
		return Hold{}, false, err
	}
	w := voidMark(cl)
	w.ClaimedBy, w.ClaimedAt = new(cl.Agent), new(now) // so that nobody's claim shows in part
	_, f, err := v.compete(w)
	switch f {
	case seen:
		return cl, true, nil
	case notLanded:
		return Hold{}, false, errors.Join(err, c.outrun(ctx, cl, err.Error()))
	}
	cl.Due = c.store.Now()
	return Hold{}, false, errors.Join(fmt.Errorf("the mark of the sweep %w", err), c.save(ctx, cl))
}

// reopenMarked reopens the task of a sweep whose mark has settled, unless somebody has
// changed it meanwhile, and reports whether it did.
func (c *Claimer) reopenMarked(ctx context.Context, cl Hold) (bool, error) {
	v, err := c.visit(ctx, cl.Task.ID, 0)
	if err != nil {
		return false, err
	}
	defer v.Close()
	switch t := v.Task; {
	case !c.onPage(cl, t):
		return false, c.outrun(ctx, cl, takenBack)
	case t.Trashed, t.ClaimedBy == "" && t.Status == task.Open, Assignee(t) != "":
		return false, c.overtaken(ctx, cl)
	case t.ClaimedBy != "" && t.ClaimedBy != cl.Agent:
		return false, c.stepAside(ctx, v, cl)
	}
	off, err := c.takeOff(ctx, v, cl)
	return off && v.Task.Status == task.InProgress, err
}

// sweptBy closes the mark of a sweep that has reopened its task, and the claim
// that it has swept.
func (c *Claimer) sweptBy(ctx context.Context, cl Hold) error {
	var err error
	local := c.held(cl.Task)
	if local.State == Held {
		_, err = c.end(ctx, local, EndSwept, cl.Sweep.Reason)
	}
	e := cl.fact(KindSwept, c.store.Now())
	e.Claim, e.Holder, e.Remote, e.Detail = cmp.Or(local.ID, ParseToken(cl.Task.Token).ID), cl.Agent, true, cl.Sweep.Reason
	e.By = cl.Sweep.By
	e.Detail += fmt.Sprintf("; it was claimed or last renewed at %s", noteTime(cl.Task.ClaimedAt))
	e.Tried = TriedAgain
	if cl.Sweep.History != "" {
		e.Tried = TriedOver
		e.Detail += "; the task is BLOCKED: " + cl.Sweep.History
	}
	if of, ferr := c.Find(ctx, e.Claim); ferr == nil && of.Task.ID != cl.Task.ID {
		// The page is a copy of another task's: nothing happened to that claim, nor to
		// its agent, and the name is all that there is to tell.
		e.Claim, e.Agent = "", ""
	}
	_, eerr := c.end(ctx, cl, EndSwept, cl.Sweep.Reason, e)
	return errors.Join(err, eerr, c.forestall(ctx, cl.Task.ID))
}

// forestall makes earlier sweeps of a task that was swept, whose marks may arrive
// yet, plain withdrawals: they have nothing to sweep any more.
func (c *Claimer) forestall(ctx context.Context, id task.ID) error {
	var errs []error
	for _, old := range c.book.on(id) {
		if old.Sweep != nil && !old.owes() && (old.State == Abandoned || old.State == Unseen) {
			old.Sweep, old.Detail = nil, "its mark came when a later sweep was done"
			errs = append(errs, c.save(ctx, old))
		}
	}
	return errors.Join(errs...)
}
