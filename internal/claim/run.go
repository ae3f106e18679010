package claim

import (
	"cmp"
	"context"
	"errors"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// errand is one errand to a page, with its record as last stored.
type errand struct {
	kind Errand
	hold Hold
	mark Mark

	sent    bool // see Sight.Sent
	settled bool // see Sight.Settled
	wrote   bool // the page shows what was to be written
	off     bool // the write took the mark off, see Step.Off
	paused  bool // the next look waits for the settle time
}

// page returns the page that the errand is to.
func (e *errand) page() task.ID {
	if e.hold.ID != "" {
		return e.hold.Task.ID
	}
	return e.mark.Task.ID
}

// follow updates the errand's record from a stored change.
func (e *errand) follow(ch Change) {
	for _, h := range ch.Holds {
		if h.ID == e.hold.ID {
			e.hold = h
		}
	}
	for _, m := range ch.Marks {
		if m.ID == e.mark.ID {
			e.mark = m
		}
	}
}

// mostLooks is how often one errand looks at its page. A holder must succeed within the grace
// of whoever covered its claim, and the caller of a finish waits for it.
const mostLooks = 3

// run reads the page of an errand, and takes the step that the page of cases decides on. The
// task is locked. The error is a *Lost if the claim is over. A finish that is put off is no failure:
// its hold is still Finishing then, and the error is nil if Notion could be asked (Asked).
func (c *Claimer) run(ctx context.Context, e *errand) error {
	var failure error
	for range mostLooks {
		if e.paused {
			if err := clock.Pause(ctx, c.settle()); err != nil {
				return c.putOff(ctx, e, err)
			}
			e.paused = false
		}
		err := c.look(ctx, e)
		again, ok := errors.AsType[notYet](err)
		if !ok {
			return err
		}
		failure = again.cause
	}
	return c.putOff(ctx, e, failure)
}

// look reads the page once, and acts on it.
func (c *Claimer) look(ctx context.Context, e *errand) error {
	v, err := c.visit(ctx, e.page(), 0)
	if err != nil {
		return c.unread(ctx, e, err)
	}
	defer v.Close()
	return c.act(ctx, v, e)
}

// act takes the step that the page of cases decides on for the page that v read.
func (c *Claimer) act(ctx context.Context, v *visit, e *errand) error {
	if e.kind == Cleanup { // the reading may have changed the mark
		now, live := c.book.mark(e.mark.ID)
		if !live || now.State != e.mark.State {
			return nil
		}
	}
	s, err := c.sight(ctx, v, e)
	if err != nil {
		return err
	}
	_, step := c.cases.Next(s)
	if step.Renew {
		v.Close()
		return c.renewFirst(ctx, e)
	}
	if step.Write != nil && e.answers(step) && c.LeftAlone(v.id) > 0 {
		if step.Err == nil {
			return nil
		}
		step.Write, step.Then = nil, nil // the claim ends all the same
	}
	if step.Write != nil && e.answers(step) && step.Write.frees() {
		step = step.under(s.leftover())
	}
	if err := c.record(ctx, v.commit, e, step.Save); err != nil {
		return err
	}
	if step.Write == nil {
		if step.Then != nil {
			if err := c.record(ctx, c.commit, e, step.Then(v.Reading)); err != nil {
				return err
			}
		}
		return step.Err
	}
	err = c.write(ctx, v, e, step)
	if step.Err != nil { // that does not depend on the write
		if err != nil {
			c.log.Warn("what is left of a lost claim could not be taken off its page yet; it is tried again", AttrClaim, e.hold.ID, AttrTask, v.id, AttrError, err)
		}
		return step.Err
	}
	return err
}

// answers reports whether the write of a step answers what somebody did to the page, see unrest.
func (e *errand) answers(step Step) bool {
	switch e.kind {
	case Sweeping, Tidying:
		return true
	}
	return step.Err != nil // the remains of a lost claim
}

// record stores a change unless it is empty, and updates the errand.
func (c *Claimer) record(ctx context.Context, commit func(context.Context, Change) error, e *errand, ch Change) error {
	if len(ch.Holds)+len(ch.Marks)+len(ch.Facts) == 0 {
		return nil
	}
	if err := commit(ctx, ch); err != nil {
		return err
	}
	e.follow(ch)
	return nil
}

// write sends the write of a step, and stores the outcome.
func (c *Claimer) write(ctx context.Context, v *visit, e *errand, step Step) error {
	send := v.write
	if step.Compete {
		send = v.compete
	}
	answer, f, err := send(*step.Write)
	if f != notLanded && e.answers(step) && c.answer(v.Task) {
		c.log.Warn("a card is left alone: something changes it back whenever it is tidied: see in Notion who edited it last", AttrKey, v.Task.Key, AttrTitle, Brief(v.Task.Title), AttrTask, v.id, "for", restFor.String())
	}
	switch {
	case f == seen && (step.Enough == nil || step.Enough(answer)):
		e.wrote, e.off = true, step.Off
		return c.record(ctx, c.commit, e, step.Then(answer))
	case notSaved(err): // nor can anything else be
		return err
	}
	if f == unknown && step.Write.frees() {
		c.fly(cmp.Or(step.Under, e.hold.ID, e.mark.ID))
	}
	e.sent = e.sent || f != notLanded && !step.Other
	e.paused = f != notLanded // give a write on its way the time to arrive
	switch {
	case f == seen:
		return notYet{unproven(e.hold)}
	case step.Else == nil:
		return notYet{f.explain("the write", err)}
	}
	ch, err := step.Else(f, err)
	return errors.Join(err, c.record(ctx, c.commit, e, ch))
}

// unread ends a look at a page that could not be read. The page counts as gone only if Notion
// says twice that it does not know it.
func (c *Claimer) unread(ctx context.Context, e *errand, err error) error {
	if storeKind(err) != NotFound {
		return c.putOff(ctx, e, err)
	}
	if e.kind != Cleanup && e.hold.ID == "" { // there was only a mark to make
		return nil
	}
	again := c.askAgain(ctx, e.page())
	switch {
	case again == nil:
		return notYet{err}
	case storeKind(again) != NotFound:
		return c.putOff(ctx, e, again)
	case e.kind == Cleanup:
		return c.saveMark(ctx, e.mark.gone(c.store.Now(), again.Error()))
	}
	s := Sight{Errand: e.kind, Hold: e.hold, Policy: c.policy, Now: c.store.Now(), standing: isGone, detail: again.Error()}
	step := s.lose()
	if err := c.record(ctx, c.commit, e, step.Save); err != nil {
		return err
	}
	return step.Err
}

// putOff ends an errand that failed. What is owed to Notion is tried again later.
func (c *Claimer) putOff(ctx context.Context, e *errand, cause error) error {
	switch {
	case notSaved(cause): // nor can this be
		return cause
	case e.kind == Delivery:
		e.hold.Due = laterThan(c.store.Now(), e.hold.Finish.At, cause)
		if cause != nil {
			e.hold.Detail = cause.Error()
		}
		if err := c.save(ctx, e.hold); err != nil || Asked(cause) {
			return err
		}
		return cause
	case e.kind == Cleanup:
		return errors.Join(cause, c.saveMark(ctx, e.mark.putOff(c.store.Now(), cause)))
	case e.hold.ID == "" && cause != nil && storeKind(cause) == Trashed: // there was only a mark to make
		return nil
	}
	return cause
}

// renewFirst renews the claim before a finish takes it off its page. Its lease is over, and
// somebody may be about to override it: only a live claim can be taken off without harm to
// others.
func (c *Claimer) renewFirst(ctx context.Context, e *errand) error {
	renewing := &errand{kind: Renewal, hold: e.hold}
	err := c.run(ctx, renewing)
	if isLost(err) || notSaved(err) {
		return err
	}
	e.hold = renewing.hold
	if err != nil {
		return c.putOff(ctx, e, err)
	}
	return notYet{}
}

// sight gathers what the page of cases needs.
func (c *Claimer) sight(ctx context.Context, v *visit, e *errand) (s Sight, err error) {
	s = Sight{
		Errand: e.kind, Hold: e.hold, Mark: e.mark, Reading: v.Reading, Policy: c.policy, Now: c.store.Now(),
		Sent: e.sent, Slow: v.late(), Settled: e.settled, Arrives: c.arrives(e.hold.ID, e.mark.ID), Marks: c.book.marksOn(v.id),
	}
	s.Policy.Settle = c.settle()
	if _, other := c.landing(v.Task); other > s.Arrives {
		s.Arrives = other
	}
	if late, ok := c.late(v.Task); ok {
		s.Late = &late
	}
	if v.Task.EditedBy != e.hold.Task.EditedBy { // else our own write was the last
		s.Editor = c.editor(v.Task.EditedBy)
	}
	switch e.kind {
	case Sweeping:
		err = c.seeStale(ctx, &s)
	case Tidying:
		if m, ok, rerr := c.remains(ctx, v.Task); ok || rerr != nil {
			s.Mark, s.Over, s.Copied, err = m, ok, m.Task.ID != v.id, rerr
		}
	case Cleanup:
		if s.Mark.Why == Swept {
			s.Local = c.held(s.Mark.Task)
			err = c.seeCopy(ctx, &s)
		}
	}
	return s, err
}
