package claim

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// finishTries is how often a finish is tried while its caller waits; after
// that it is delivered later.
const finishTries = 3

// What deliver says of a finish that is to be tried again.
var (
	errOwed = errors.New("not delivered yet")
	errAway = fmt.Errorf("%w: nothing can be asked of Notion", errOwed)
)

// delivery is the writing of what an agent said when it was done.
type delivery struct {
	*Claimer
	cl Hold
	// sent says that it may have been written before: then a page that shows as
	// much, which would otherwise be a person's doing, is the effect of it.
	sent bool
	// failure is why the last try failed.
	failure error
}

// deliver writes what the agent said when it was done, if the claim still
// stands. sent is as in delivery. If it has to be tried again, the error is
// errOwed; errAway, if no request could be made. The task is locked.
func (c *Claimer) deliver(ctx context.Context, cl Hold, sent bool) (Hold, error) {
	d := &delivery{Claimer: c, cl: cl, sent: sent}
	for range finishTries {
		if cl, err := d.once(ctx); !errors.Is(err, errAgain) {
			return cl, err
		}
	}
	return d.owed(ctx, d.failure)
}

// once tries to deliver. The error is errAgain if it has to look once more.
func (d *delivery) once(ctx context.Context) (Hold, error) {
	v, err := d.visit(ctx, d.cl.Task.ID, 0)
	switch {
	case err != nil && !Asked(err):
		cl, err := d.owed(ctx, err)
		if errors.Is(err, errOwed) {
			err = errAway
		}
		return cl, err
	case err != nil && storeKind(err) == NotFound:
		switch again := d.askAgain(ctx, d.cl.Task.ID); {
		case again == nil:
			return Hold{}, errAgain
		case storeKind(again) == NotFound:
			return d.lose(ctx, d.cl, task.Task{}, "", again.Error())
		default:
			return d.owed(ctx, again)
		}
	case err != nil:
		return d.owed(ctx, err)
	}
	defer v.Close()
	w := finishWrite(d.cl, d.policy)
	s, holder, detail := d.look(d.cl, v.Task, v.judged())
	switch {
	case s == done, d.sent && w.shows(v.Task, d.policy.NoToken), d.sent && s == suspect && *w.Status == task.Open:
		// The last: the task was given back, and somebody claimed it since.
		return d.finished(ctx, v.Task)
	case s == suspect && d.bearWith(&d.cl, detail):
		return d.cl, d.save(ctx, d.cl)
	case s == suspect, s == gone:
		return d.loseOn(ctx, v, d.cl, holder, detail)
	case d.policy.Over(v.Task, v.At): // an unsure reading will do: to renew harms nobody
		v.Close()
		return d.renewFirst(ctx)
	case w.Status != nil && *w.Status == task.Open && d.arrives(d.cl) > 0:
		d.cl.Due = d.store.Now().Add(d.arrives(d.cl))
		if err := d.save(ctx, d.cl); err != nil {
			return d.cl, err
		}
		return d.cl, errOwed
	}
	return d.write(ctx, v, w)
}

// renewFirst renews a claim whose lease is over: somebody may be about to override
// it, and only who has a live claim can take it off the page without harm to others.
func (d *delivery) renewFirst(ctx context.Context) (Hold, error) {
	renewed, err := d.renew(ctx, d.cl)
	if _, lost := errors.AsType[*Lost](err); lost || notSaved(err) {
		return Hold{}, err
	}
	if err != nil {
		return d.owed(ctx, err)
	}
	d.cl = renewed
	return Hold{}, errAgain
}

// write writes what the agent said on the page that v has seen.
func (d *delivery) write(ctx context.Context, v *visit, w Write) (Hold, error) {
	answer, f, err := v.write(w.givingBack(d.cl, v.Task))
	switch f {
	case seen:
		return d.finished(ctx, answer.Task)
	case notLanded:
		if notSaved(err) { // it stays owed as it is
			return d.cl, err
		}
		d.failure = err
		return Hold{}, errAgain
	}
	d.failure, d.sent = fmt.Errorf("the write %w", err), true
	// It may show on the next reading, and a write on its way gets the time to arrive.
	if err := clock.Pause(ctx, d.policy.Settle); err != nil {
		return d.owed(ctx, err)
	}
	return Hold{}, errAgain
}

// owed puts the delivery off.
func (d *delivery) owed(ctx context.Context, cause error) (Hold, error) {
	d.cl.Due = d.later(d.cl.Finish.At, cause)
	if cause != nil {
		d.cl.Detail = cause.Error()
	}
	if err := d.save(ctx, d.cl); err != nil {
		return d.cl, err
	}
	return d.cl, errOwed
}

// finished closes a claim whose finish is in Notion, where the task is as t.
func (d *delivery) finished(ctx context.Context, t task.Task) (Hold, error) {
	d.cl.Task = t
	e := d.cl.fact(finishKinds[d.cl.Finish.As], d.store.Now())
	e.Remote, e.Started, e.Finished, e.Summary = true, d.cl.Started, d.cl.Finish.At, d.cl.Finish.Summary
	if f := d.cl.Finish; f.To != "" {
		e.Holder, e.Expires = f.To, e.At.Add(f.For)
	}
	e.Comment, e.Mention = d.cl.Finish.Comment, d.cl.Finish.Mention
	switch f := d.cl.Finish; {
	case f.As == EndFailed && f.Reopen:
		e.Tried = TriedAgain
	case f.As != EndReleased:
		e.Tried = TriedOver
	}
	if d.cl.Finish.History != "" {
		e.Detail = "the task is BLOCKED: " + d.cl.Finish.History
	}
	e.Asked = d.cl.Finish.Ask
	return d.end(ctx, d.cl, d.cl.Finish.As, e.Detail, e)
}

var finishKinds = map[Ending]Kind{
	EndCompleted: KindCompleted, EndFailed: KindFailed, EndBlocked: KindBlocked, EndReleased: KindReleased,
	EndReview: KindReview,
}
