package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// try makes one attempt for r. After the first one it attempts a named task only if nobody here has
// it and the mirror shows that it can be claimed: waiting costs no requests and leaves no trace.
func (b *Broker) try(ctx context.Context, r request, f task.Filter, first bool) (claim.Hold, error) {
	if r.task == "" {
		return b.next(ctx, r, f)
	}
	bd := b.presentAt(r.at)
	t, known := bd.Task(r.task)
	if c, taken := bd.occupied(r.task); taken && !first {
		return claim.Hold{}, claim.Occupied(c)
	}
	if !known {
		t = task.Task{ID: r.task}
	} else if d := claim.Decide(t, r.agent, bd.waitsFor(t), bd.now, bd.policy); d.Code != "" && !first {
		return claim.Hold{}, bd.named(d.Deny(t))
	} else if d := bd.cameBack(t, r.agent); d != nil && !first {
		return claim.Hold{}, asked(d)
	} else if taken := bd.touching(t, r.agent); taken != nil && !first {
		return claim.Hold{}, asked(bd.refusal(t, taken))
	}
	return b.attempt(ctx, r, t, nil)
}

// claimTries is how many attempts one request gets if the claim write does not arrive. Each has its
// own id and its own stopwatch.
const claimTries = 3

// attempt runs the protocol, and repeats it while the claim write does not arrive.
func (b *Broker) attempt(ctx context.Context, r request, t task.Task, unwanted func(task.Task) string) (claim.Hold, error) {
	for try := 1; ; try++ {
		cl, err := b.attemptOnce(ctx, r, t, unwanted)
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if !isDenied || denied.Reach != claim.ReachUnseen || try == claimTries || ctx.Err() != nil {
			return cl, err
		}
	}
}

func (b *Broker) attemptOnce(ctx context.Context, r request, t task.Task, unwanted func(task.Task) string) (claim.Hold, error) {
	id := b.claimer.NewID()
	if r.Key != "" {
		// A retry of the request finds the claim by this if the daemon is killed before it answers.
		if err := b.journal.BindRequest(ctx, r.UID, r.Key, id); err != nil {
			return claim.Hold{}, err
		}
	}
	kept := r.keeper.Process.ID != 0
	if kept {
		// Before the attempt, so that a crash leaves no claim without its keeper.
		if err := b.alive.Keep(ctx, id, r.keeper); err != nil {
			return claim.Hold{}, err
		}
	}
	var offered inbox.Offer
	if claim.AssignedAgent(t) == r.agent {
		if o, err := b.offerOf(ctx, t.ID); err == nil && o.To == r.agent {
			offered = o
		}
	}
	admit, release := b.admit(ctx, r)
	defer release(id)
	cl, err := b.claimer.Claim(ctx, claim.Request{Repository: r.at.repository, Member: r.at.member, Admit: admit, ID: id, Agent: r.agent, From: offered.From, Until: offered.Until, Task: t, Timeout: r.timeout, Limit: new(b.limit(r.agent, b.claimer.Policy())), Keep: api.Outlives(r.Key), Quiet: r.task == "", Unwanted: unwanted, Explain: func(d *claim.Denied) *claim.Denied { return b.present().named(d) }, Note: r.note})
	if kept && err == nil {
		b.alive.Granted(id)
	} else if kept {
		if ferr := b.alive.Forget(context.WithoutCancel(ctx), id); ferr != nil {
			b.log.Error("could not forget the keeper of a claim that was not granted", claim.AttrClaim, id, claim.AttrError, ferr)
		}
	}
	denied, isDenied := errors.AsType[*claim.Denied](err)
	if !isDenied || !denied.Reach.IsLocal() && !denied.Reach.IsPage() { // else the caller would wake itself
		b.Changed()
		b.ready.Claimed(t.ID)
	}
	if denied == nil && err == nil || denied != nil && denied.Holder != "" && !denied.Reach.IsLocal() {
		b.troubles.works(t.ID)
	}
	return cl, err
}

// next tries the ready tasks that the filter selects until a claim is granted. A task whose page
// cannot be read or written is passed over, also by later calls for a while. One event records all
// tasks that turned out to be taken.
func (b *Broker) next(ctx context.Context, r request, f task.Filter) (claim.Hold, error) {
	tried := make(map[task.ID]bool)
	for _, id := range r.except {
		tried[id] = true
	}
	withheld, err := b.withheld(ctx, r.agent)
	if err != nil {
		return claim.Hold{}, err
	}
	for id := range withheld {
		tried[id] = true
	}
	var unwanted func(task.Task) string
	if !f.Empty() {
		unwanted = func(t task.Task) string { return f.Miss(t, b.words) } // the page may show something else by now
	}
	var troubled *claim.Denied
	var denials []*claim.Denied // not recorded yet
	first := b.claimer.NewID()
	defer func() {
		if len(denials) == 0 {
			return
		}
		if err := b.journal.Record(context.WithoutCancel(ctx), claim.PassedOver(r.agent, first, b.now(), denials)); err != nil {
			b.log.Error("could not journal the tasks that were passed over", claim.AttrAgent, r.agent, claim.AttrError, err)
		}
	}()
	for failures := 0; ; {
		c := b.pick(r, f, tried)
		age := catchUpAfter
		if c.sure {
			age = sureAfter
		}
		if c.done != nil && b.rivals.catchUp(ctx, b.mirror, age) {
			c.done()
			c = b.pick(r, f, tried)
		}
		if c.done == nil {
			return claim.Hold{}, b.nothing(troubled, c.passed)
		}
		t := c.task
		tried[t.ID] = true
		cl, err := b.attempt(ctx, r, t, unwanted)
		c.done()
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if !isDenied {
			return cl, err
		}
		switch denied.Code {
		case claim.CodeLimitReached, claim.CodePaused, claim.CodeJournalUnavailable:
			return cl, err
		case claim.CodeNotionUnavailable, claim.CodeNotionRefused:
			if failures++; !denied.Reach.IsPage() || failures == maxTroubled || ctx.Err() != nil {
				return cl, err
			}
			b.troubles.meet(t, cmp.Or(denied.Err, err))
			b.sums.changed()
			troubled = denied
		case claim.CodeHeld, claim.CodeNotOpen, claim.CodeLostRace:
			if denied.Reach.IsLocal() {
				break
			}
			if denied.Reach == claim.ReachUnrecorded {
				denials = append(denials, denied)
			}
			if token := claim.ParseToken(denied.Task.Token); denied.Code != claim.CodeNotOpen || token.ID != "" {
				b.rivals.meet(cmp.Or(denied.Holder, token.By), time.Now())
				b.rivals.catchUp(ctx, b.mirror, catchUpAfter)
			}
		}
	}
}

// nothing returns the denial when no task is left to try. troubled is the denial of a task that was
// ready but could not be read or written, if there was one; passed says that another one was passed
// over.
func (b *Broker) nothing(troubled *claim.Denied, passed bool) *claim.Denied {
	if troubled != nil {
		return troubled
	}
	if s := b.mirror.Standing(); s.Stale {
		return nothingKnown(s)
	}
	if passed {
		return &claim.Denied{
			Code: claim.CodeNotionUnavailable, RetryAfter: firstPass, Reach: claim.ReachPage,
			Detail: "the tasks that are ready cannot be read or written in Notion at present, see `dibs status`; try again later",
		}
	}
	return &claim.Denied{Code: claim.CodeNothingReady, Detail: "no task is ready"} // see summed
}

// nothingKnown returns the denial when the mirror has no ready task, but is out of date: Notion may
// have one.
func nothingKnown(s mirror.Standing) *claim.Denied {
	d := &claim.Denied{
		Code: claim.CodeNotionUnavailable, RetryAfter: recheck,
		Detail: "the board is being read for the first time, see `dibs status`; try again later, or wait for a task",
	}
	if !s.SyncedAt.IsZero() {
		d.Detail = fmt.Sprintf("no task was ready when Notion was last heard of, %s ago; try again later, or wait for a task", s.Old.Round(time.Second))
	}
	return d
}

// choice is the task chosen for a request.
type choice struct {
	task task.Task
	// done releases the choice, and must be called; it is nil if there is no task.
	done func()
	// sure is set unless another daemon's agent is likelier to choose the task.
	sure bool
	// passed is set if a task was passed over because its page fails.
	passed bool
}

// pick chooses the first ready task that the filter selects, that was not tried, and that no other
// request has picked: so agents of one daemon do not collide. Tasks assigned to the agent come
// first. While agents of other daemons are active, it chooses among the open tasks the one that
// they are least likely to choose.
func (b *Broker) pick(r request, f task.Filter, tried map[task.ID]bool) (c choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bd, agent := b.presentAt(r.at), r.agent
	free := func(tasks ready.List) iter.Seq[task.Task] {
		return func(yield func(task.Task) bool) {
			for t := range tasks.All() {
				if tried[t.ID] || b.picked[t.ID] || !f.Match(t) || !bd.open(t, agent) {
					continue
				}
				if taken := bd.touching(t, agent); taken != nil {
					if ofClaim(taken) {
						b.overlooked.note(t.ID, bd.now)
					}
					continue
				}
				if _, _, waits := bd.ahead(t, agent); waits {
					continue
				}
				if b.troubles.passed(t.ID) {
					c.passed = true
				} else if !yield(t) {
					return
				}
			}
		}
	}
	assigned, open := b.offered(agent, f)
	var ok bool
	if c.task, ok = first(free(assigned)); ok {
		c.sure = true
	} else if c.task, c.sure, ok = b.rivals.choose(agent, free(open)); !ok {
		return c
	}
	id := c.task.ID
	b.picked[id] = true
	c.done = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.picked, id)
	}
	return c
}

// first returns the first task; false if there is none.
func first(tasks iter.Seq[task.Task]) (task.Task, bool) {
	for t := range tasks {
		return t, true
	}
	return task.Task{}, false
}

// admit decides last whether the agent of an attempt may have its task, as the page shows it. What the
// task touches is the attempt's until release is called, or refused.
func (b *Broker) admit(ctx context.Context, r request) (admit func(claim.Hold) *claim.Denied, release func(claim.ID)) {
	return func(c claim.Hold) *claim.Denied {
		bd := b.presentAt(r.at)
		if d := bd.cameBack(c.Task, r.agent); d != nil {
			return asked(d)
		}
		if len(c.Touches) == 0 {
			return nil
		}
		if taken := b.reserved.Touch(ctx, c); taken != nil {
			return asked(bd.refusal(c.Task, taken))
		}
		return nil
	}, b.reserved.Untouch
}
