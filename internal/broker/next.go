package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// next tries the ready tasks that the filter selects until a claim is granted. A task whose page
// cannot be read or written is passed over, also by later calls for a while. One event records all
// tasks that turned out to be taken.
func (b *Broker) next(ctx context.Context, r request, f task.Filter) (claim.Hold, error) {
	tried := make(map[task.ID]bool)
	for _, id := range r.except {
		tried[id] = true
	}
	kept, err := b.kept(ctx, r.agent)
	if err != nil {
		return claim.Hold{}, err
	}
	for id := range kept {
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
		c := b.pick(r.agent, f, tried)
		age := catchUpAfter
		if c.sure {
			age = sureAfter
		}
		if c.done != nil && b.rivals.catchUp(ctx, b.mirror, age) {
			c.done()
			c = b.pick(r.agent, f, tried)
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
func (b *Broker) pick(agent string, f task.Filter, tried map[task.ID]bool) (c choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bd := b.present()
	free := func(tasks ready.List) iter.Seq[task.Task] {
		return func(yield func(task.Task) bool) {
			for t := range tasks.All() {
				if tried[t.ID] || b.picked[t.ID] || !f.Match(t) || !bd.ready(t, agent) {
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
