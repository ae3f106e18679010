package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// next goes down the ready tasks that the filter selects until a claim is granted. A task
// whose page cannot be read or written is passed over, then and for a while. Tasks that
// turn out to be held by others are recorded in one event.
func (b *Broker) next(ctx context.Context, r Request, f task.Filter) (claim.Claim, error) {
	tried := make(map[task.ID]bool)
	for _, id := range r.Except {
		tried[id] = true
	}
	var unwanted func(task.Task) string
	if !f.Empty() {
		unwanted = f.Miss // the page may show something else by now
	}
	var troubled *claim.Denied
	var held []*claim.Denied
	first := claim.NewID(b.now())
	defer func() {
		if len(held) == 0 {
			return
		}
		if err := b.journal.Record(context.WithoutCancel(ctx), claim.PassedOver(r.Agent, first, b.now(), held)); err != nil {
			b.log.Error("what was passed over could not be journalled", "agent", r.Agent, "error", err)
		}
	}()
	b.others.catchUp(ctx, b.mirror)
	for failures := 0; ; {
		t, done, passed := b.pick(r.Agent, f, tried)
		if done == nil {
			return claim.Claim{}, b.nothing(troubled, passed)
		}
		cl, err := b.attempt(ctx, r, t, unwanted)
		done()
		var denied *claim.Denied
		if !errors.As(err, &denied) || denied.Repeated {
			return cl, err
		}
		switch denied.Code {
		case claim.CodeLimitReached, claim.CodeArbiterUnavailable:
			return cl, err
		case claim.CodeNotionUnavailable, claim.CodeNotionRefused:
			if failures++; !denied.Page || failures == maxTroubled || ctx.Err() != nil {
				return cl, err
			}
			b.troubles.meet(t, cmp.Or(denied.Err, err))
			b.sums.changed()
			troubled = denied
		case claim.CodeHeld, claim.CodeLostRace:
			if !denied.Local {
				if denied.Code == claim.CodeHeld {
					held = append(held, denied)
				}
				b.others.meet()
				b.others.catchUp(ctx, b.mirror)
			}
		}
	}
}

// nothing denies the next task because none is left to be tried. troubled is the denial
// of a task that was ready but could not be had, if there was one, and passed says that
// another one was passed over.
func (b *Broker) nothing(troubled *claim.Denied, passed bool) *claim.Denied {
	if troubled != nil {
		return troubled
	}
	if s := b.mirror.Standing(); s.Stale {
		return nothingKnown(s)
	}
	if passed {
		return &claim.Denied{
			Code: claim.CodeNotionUnavailable, RetryAfter: firstPass, Page: true,
			Detail: "the tasks that are ready cannot be read or written in Notion at present, see `dibs status`; try again later",
		}
	}
	return &claim.Denied{Code: claim.CodeNothingReady, Detail: "no task is ready"} // see summed
}

// nothingKnown denies the next task because the mirror has none that is ready, and is
// out of date: there may be one in Notion.
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

// pick chooses the first task ready for the agent that the filter selects, that was not
// tried and that no other request has picked, so that agents of one daemon do not get into
// each other's way. Those assigned to the agent come first. While other daemons are at
// work, it chooses among the others the one that they are least likely to choose, too. done
// gives up the choice, and must be called; it is nil if there is no such task. passed says
// that one was passed over because of its page.
func (b *Broker) pick(agent string, f task.Filter, tried map[task.ID]bool) (t task.Task, done func(), passed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bd := b.present()
	free := func(tasks iter.Seq[task.Task]) iter.Seq[task.Task] {
		return func(yield func(task.Task) bool) {
			for t := range tasks {
				if f.Past(t) {
					return
				}
				if tried[t.ID] || b.picked[t.ID] || !f.Match(t) || !bd.ready(t, agent) {
					continue
				}
				if b.troubles.passed(t.ID) {
					passed = true
				} else if !yield(t) {
					return
				}
			}
		}
	}
	t, ok := first(free(b.ready.Assigned(agent)))
	if !ok {
		t, ok = b.others.choose(free(b.ready.Tasks()))
	}
	if !ok {
		return task.Task{}, nil, passed
	}
	tried[t.ID], b.picked[t.ID] = true, true
	return t, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.picked, t.ID)
	}, passed
}

// first returns the first of the tasks; false if there is none.
func first(tasks iter.Seq[task.Task]) (task.Task, bool) {
	for t := range tasks {
		return t, true
	}
	return task.Task{}, false
}
