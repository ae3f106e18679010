package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/kit/backoff"
	"dibs/internal/task"
)

// Claim gets the agent a task: the named one, or the first ready one that the filter selects. If it
// gets none within the wait, the error is a *claim.Denied, inside a *NothingError if no task was
// ready. It is an *InvalidError if the filter cannot be used.
func (b *Broker) Claim(ctx context.Context, who Caller, in *api.KeyedInput[api.ClaimRequest]) (api.Claim, error) {
	body := in.Body
	r := request{
		Caller: who, agent: body.Agent, task: task.ID(body.Task),
		timeout: time.Duration(body.TimeoutMinutes) * time.Minute, wait: seconds(body.WaitSeconds),
	}
	if !body.Filter.Empty() && body.Task != "" {
		return api.Claim{}, api.Invalid("body.task", errors.New("a filter (priority, where, text) goes with the next ready task, not with one that is named: leave one of them out"))
	}
	if len(body.Except) > 0 && body.Task != "" {
		return api.Claim{}, api.Invalid("body.except", errors.New("it goes with the next ready task, not with one that is named: leave one of them out"))
	}
	for i, s := range body.Except {
		id, err := task.ParseID(s)
		if err != nil {
			return api.Claim{}, api.Invalid(fmt.Sprintf("body.except[%d]", i), err)
		}
		r.except = append(r.except, id)
	}
	var err error
	if r.keeper, err = who.keeper(body.Keeper); err != nil {
		return api.Claim{}, err
	}
	if r.at, err = who.placeOf("body.repository", body.Repository); err != nil {
		return api.Claim{}, err
	}
	return b.grant(ctx, r, body.Filter)
}

// Accept claims a task that is offered to the agent. It fails as Claim does.
func (b *Broker) Accept(ctx context.Context, who Caller, in *api.TaskInput[api.AcceptRequest]) (api.Claim, error) {
	return b.grant(ctx, request{
		Caller: who, agent: in.Body.Agent, task: task.ID(in.ID), timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute, note: in.Body.Note,
	}, api.Filter{})
}

// grant gets the claim that r asks for, and tells the daemon how that ended.
func (b *Broker) grant(ctx context.Context, r request, of api.Filter) (out api.Claim, err error) {
	if b.daemon != nil {
		began := time.Now()
		defer func() { b.daemon.Claimed(r.agent, err, time.Since(began)) }()
	}
	f, err := b.filter(of)
	if err != nil {
		return api.Claim{}, err
	}
	cl, err := b.get(ctx, r, f)
	if out, err = b.answer(cl, b.summed(ctx, err, r, f)); err == nil {
		b.AddAttempts(ctx, &out)
		b.addRemarks(ctx, &out)
	}
	return out, err
}

// awayPauses are the pauses before a retry when Notion fails without being known to be down.
var awayPauses = backoff.Backoff{First: 3 * time.Second, Longest: recheck}

// get is Claim without the summary of a denial: it tries again until waiting cannot help, or the wait
// is over.
func (b *Broker) get(ctx context.Context, r request, f task.Filter) (claim.Hold, error) {
	if most := b.claimer.Policy().MaxLifetime; most > 0 && r.timeout > most {
		return claim.Hold{}, &InvalidError{Detail: fmt.Sprintf("to be kept for %v: a claim lives at most %v (claim.max_lifetime)", r.timeout, most)}
	}
	deadline := time.Now().Add(r.wait)
	var fresh *waiter // set for requests that wait for certain tasks only
	if r.task == "" && !f.Empty() && r.wait > 0 {
		fresh = b.waiters.add(r.agent, f)
		defer b.waiters.remove(fresh)
	}
	b.mirror.Use(ctx)
	if r.wait > 0 {
		defer b.mirror.Await()()
	}
	var last *claim.Denied // of the try before
	for failures := 0; ; {
		ends := b.listen(fresh) // before the try, which may take long
		cl, err := b.tryUnpaused(ctx, r, f, last)
		denied, isDenied := errors.AsType[*claim.Denied](err)
		left := time.Until(deadline)
		if !isDenied || !passing(denied, r.task == "") || left <= 0 {
			return cl, err
		}
		last = denied
		news, pause := ends.of(denied, &failures)
		select {
		case <-news:
		case <-ends.back:
		case <-time.After(min(left, pause)):
		case <-b.closed:
			return claim.Hold{}, ErrStopping
		case <-ctx.Done():
			return claim.Hold{}, context.Cause(ctx)
		}
	}
}

// endings are what may end the wait after a denial: channels that are closed, or ring, once something
// happened since they were taken.
type endings struct {
	b       *Broker
	changed <-chan struct{} // a task or a claim; for a waiter, a task became ready that it wants
	eased   <-chan struct{} // agents may be granted something that were not before
	back    <-chan struct{} // Notion can be reached again
}

// listen takes what may end a wait from now on.
func (b *Broker) listen(fresh *waiter) endings {
	e := endings{b, b.changed.next(), b.eased.next(), b.back()}
	if fresh != nil {
		e.changed = fresh.begin()
	}
	return e
}

// of returns what is waited for after a denial, and after how long there is another try in any case.
// Beside that, every wait ends when Notion is back.
//
//	the denial        the news                   another try
//	paused            a pause was ended          at the end of the pause
//	Notion is away    nothing that happens here  as Notion says, or after 3, 6, 12, 15 s
//	any other         a task or a claim changed  after 15 s, or as Notion says, if that is later
func (e endings) of(d *claim.Denied, failures *int) (news <-chan struct{}, pause time.Duration) {
	pause = max(recheck, d.RetryAfter)
	switch {
	case d.Code == claim.CodePaused:
		return e.eased, e.b.until(d.ExpiresAt, pause)
	case d.Code == claim.CodeNotionUnavailable && !d.Reach.IsPage() && d.Task.ID != "":
		if d.RetryAfter == 0 {
			*failures++
			pause = awayPauses.After(*failures)
		}
		return nil, pause
	}
	return e.changed, pause
}

// passing reports whether waiting may overcome a denial. next says that any ready task will do.
func passing(d *claim.Denied, next bool) bool {
	switch d.Code {
	case claim.CodeNotFound, claim.CodeLimitReached:
		return false
	case claim.CodeNotionRefused:
		return next && d.Reach.IsPage() // another task may do
	case claim.CodeNotOpen:
		return !d.Task.Status.Finished() && !d.Task.Trashed
	}
	return true
}

// tryUnpaused is try, but of a pause it tries nothing, so that waiting through one costs nothing
// and leaves no trace. last is the denial of the try before; nil for the first try.
func (b *Broker) tryUnpaused(ctx context.Context, r request, f task.Filter, last *claim.Denied) (claim.Hold, error) {
	if last != nil && last.Code == claim.CodePaused {
		if barred, err := b.paused(ctx, r.agent); barred != nil && err == nil {
			return claim.Hold{}, barred.Denied()
		}
	}
	cl, err := b.try(ctx, r, f, last == nil)
	if denied, ok := errors.AsType[*claim.Denied](err); ok && denied.Code == claim.CodeNothingReady {
		if barred, err := b.paused(ctx, r.agent); barred != nil && err == nil {
			return claim.Hold{}, barred.Denied()
		}
	}
	return cl, err
}

// until returns the time until the end of a pause, but most at the most; an end of zero is none.
func (b *Broker) until(end time.Time, most time.Duration) time.Duration {
	if end.IsZero() {
		return most
	}
	return max(0, min(most, end.Sub(b.now())))
}
