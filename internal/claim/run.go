package claim

import (
	"cmp"
	"context"
	"errors"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// errand is one errand to a page, with its record as last stored.
type errand struct {
	kind Errand
	hold Hold
	mark Mark

	ask    *Reopening // see Sight.Ask, and there Was and Former
	was    task.Status
	former string

	sent    bool // see Sight.Sent
	settled bool // see Sight.Settled
	wrote   bool // the page shows what was to be written
	off     bool // the write took the mark off, see Step.Off
	missing bool // Notion said at the last look that it does not know the page
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
// of whoever covered its claim, and the caller of a finish waits for it. What is reopened needs two
// looks where remains of a claim are left.
const mostLooks, mostOpenings = 3, 5

// confirmAfter is the shortest wait before Notion is asked again for a page that it said it
// does not know: it has been seen to say so in passing.
const confirmAfter = 3 * time.Second

// run reads the page of an errand, and takes the step that the page of cases decides on. The
// task is locked. The error is a *Lost if the claim is over. A finish that is put off is no failure:
// its hold is still Finishing then, and the error is nil if Notion could be asked (Asked).
func (c *Claimer) run(ctx context.Context, e *errand) error {
	var failure error
	var wait time.Duration
	looks := mostLooks
	if e.kind == Opening {
		looks = mostOpenings
	}
	for range looks {
		if wait > 0 {
			if err := clock.Pause(ctx, wait); err != nil {
				return c.putOff(ctx, e, err)
			}
		}
		err := c.look(ctx, e)
		again, ok := errors.AsType[notYet](err)
		if !ok {
			return err
		}
		// What failed while a task is reopened is its caller's answer, also if a later look did not fail.
		if wait = again.wait; again.cause != nil || !e.sent && e.kind != Opening {
			failure = again.cause
		}
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
	e.missing = false
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
	if step.Write == nil && step.Next != "" {
		v.Close()
		return c.next(ctx, e, step.Next, s)
	}
	if e.kind == Opening && step.Err == nil {
		e.was, e.former = s.before(), cmp.Or(e.former, s.Task.ClaimedBy)
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
	if err == nil && step.Next != "" {
		v.Close()
		return c.next(ctx, e, step.Next, s)
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
	case f == confirmed && (step.Enough == nil || step.Enough(answer)):
		e.wrote, e.off = true, step.Off
		if e.kind == Opening {
			e.mark.Task = answer.Task
		}
		return c.record(ctx, c.commit, e, step.Then(answer))
	case notSaved(err): // nor can anything else be
		return err
	}
	if f == unknown && step.Write.frees() {
		c.fly(cmp.Or(step.Under, e.hold.ID, e.mark.ID))
	}
	e.sent = e.sent || f != notLanded && !step.Other
	again := notYet{wait: c.settle()} // gives a write on its way the time to arrive
	if f == notLanded {
		again.wait = 0
	}
	switch {
	case f == confirmed:
		again.cause = unproven(e.hold)
		return again
	case step.Else == nil:
		again.cause = f.explain("the write", err)
		return again
	}
	ch, err := step.Else(f, err)
	return errors.Join(err, c.record(ctx, c.commit, e, ch))
}

// unread ends a look at a page that could not be read. The page counts as gone only if Notion
// says twice that it does not know it.
func (c *Claimer) unread(ctx context.Context, e *errand, err error) error {
	switch {
	case storeKind(err) != NotFound:
		return c.putOff(ctx, e, err)
	case e.kind == Sweeping, e.kind == Tidying: // there was only a mark to make
		return nil
	case !e.missing:
		e.missing = true
		return notYet{err, max(c.settle(), confirmAfter)}
	case e.kind == Opening:
		return c.putOff(ctx, e, err)
	case e.kind == Cleanup:
		return c.saveMark(ctx, e.mark.gone(c.store.Now(), err.Error()))
	}
	s := Sight{Errand: e.kind, Hold: e.hold, Policy: c.policy, Now: c.store.Now(), standing: isGone, detail: err.Error()}
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
	case e.kind == Opening && ctx.Err() == nil:
		if cause == nil { // each look had something else to do first
			cause = Errorf(Unavailable, LandedNo, "something changes the page back whenever it is tidied")
		}
		d := ofPage(cause)
		d.Task = e.mark.Task
		return &d
	case e.kind != Opening && e.hold.ID == "" && cause != nil && storeKind(cause) == Trashed: // there was only a mark to make
		return nil
	}
	return cause
}

// next does the errand that follows a step, see Step.Next, and has the page read again. That renews
// the claim before a finish takes it off its page: its lease is over, and somebody may be about to
// override it, and only a live claim can be taken off without harm to others. Before a task is reopened
// it ends the claim of an agent here (s.Local), or takes off the mark that was put.
func (c *Claimer) next(ctx context.Context, e *errand, kind Errand, s Sight) (err error) {
	n := &errand{kind: kind, hold: e.hold}
	switch kind {
	case Cleanup:
		_, _, err = c.takeOff(ctx, e.mark)
		return notYet{cause: err}
	case Guard:
		n.hold = s.Local
	}
	err = c.run(ctx, n)
	if kind == Renewal && !isLost(err) && !notSaved(err) {
		e.hold = n.hold
	}
	switch {
	case isLost(err) && kind == Guard:
		return notYet{cause: err}
	case isLost(err), notSaved(err):
		return err
	case err != nil:
		return c.putOff(ctx, e, err)
	}
	return notYet{}
}

// takeOff waits until a mark has settled, and takes it off its page, unless somebody has
// changed the page meanwhile. off reports whether it did.
func (c *Claimer) takeOff(ctx context.Context, m Mark) (_ Mark, off bool, err error) {
	if err := clock.Pause(ctx, c.settle()); err != nil {
		return m, false, err
	}
	e := &errand{kind: Cleanup, mark: m, settled: true}
	err = c.run(ctx, e)
	return e.mark, e.off, err
}

// sight gathers what the page of cases needs.
func (c *Claimer) sight(ctx context.Context, v *visit, e *errand) (s Sight, err error) {
	if e.kind == Opening { // a mark to put, if a name is left
		id, now := ParseToken(v.Task.Token).ID, c.store.Now()
		e.mark = Mark{ID: NewID(now), Why: ForReopening, Agent: v.Task.ClaimedBy, Task: v.Task, Made: now, Reason: "the task is being reopened"}
		e.mark.Of = cmp.Or(id, e.mark.ID)
	}
	s = Sight{
		Errand: e.kind, Hold: e.hold, Mark: e.mark, Reading: v.Reading, Policy: c.policy, Now: c.store.Now(),
		Sent: e.sent, Slow: v.late(), Settled: e.settled, Arrives: c.arrives(e.hold.ID, e.mark.ID), Marks: c.book.marksOn(v.id),
		Ask: e.ask, Was: e.was, Former: e.former,
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
	case Opening:
		err = c.seeOpening(ctx, &s)
	case Cleanup:
		if s.Mark.Why == Swept {
			s.Local = c.held(s.Mark.Task)
			err = c.seeCopy(ctx, &s)
		}
	}
	return s, err
}
