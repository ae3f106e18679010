package broker

import (
	"context"
	"fmt"
	"iter"
	"time"

	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/mirror"
	"dibs/internal/ready"
	"dibs/internal/task"
)

// board is the mirror and the claims held here: what is in its fields as of the moment
// when it was made, and what it asks the mirror and the claimer for as of now.
type board struct {
	Mirror
	standing mirror.Standing
	tasks    iter.Seq[task.Task] // of one moment, in the order in which they are offered
	claimer  *claim.Claimer
	now      time.Time
	policy   claim.Policy
	offers   map[task.ID]inbox.Offer // loaded with load
}

// load reads what the views of tasks show beside the mirror and the claims.
func (b *Broker) load(ctx context.Context, bd *board) error {
	offers, err := b.offers(ctx)
	bd.offers = make(map[task.ID]inbox.Offer, len(offers))
	for _, o := range offers {
		bd.offers[o.Task] = o
	}
	return err
}

func (b *Broker) board() *board {
	bd := b.present()
	bd.standing, bd.tasks = b.mirror.Standing(), b.mirror.Tasks()
	return bd
}

// present is the board for questions about single tasks only.
func (b *Broker) present() *board {
	return &board{Mirror: b.mirror, claimer: b.claimer, now: b.now(), policy: b.claimer.Policy()}
}

// waitsFor returns the dependencies of t that are not known to be COMPLETED.
func (bd *board) waitsFor(t task.Task) []task.ID {
	return task.Unfinished(t, func(id task.ID) (task.Status, bool) {
		dep, ok := bd.Task(id)
		return dep.Status, ok && !dep.Trashed
	})
}

// occupied returns the claim that keeps a task from everybody else, if there is one. A claim
// that has gone stale does not keep anybody from it.
func (bd *board) occupied(id task.ID) (claim.Claim, bool) {
	c, taken := bd.claimer.On(id)
	return c, taken && (c.State != claim.Held || !bd.now.After(c.StaleAt))
}

// ready reports whether a claim of the agent on t would pass the pre-flight if Notion
// shows what the mirror shows: nobody holds t, nothing blocks it, and it is OPEN or
// assigned to the agent. For an empty agent nothing is ready that is assigned.
func (bd *board) ready(t task.Task, agent string) bool {
	v := bd.judge(t)
	return v.Ready && (v.For == "" || v.For == agent)
}

// judge says for whom t is ready, and when a task that is not may become so by itself,
// because a lease ends.
func (bd *board) judge(t task.Task) ready.Verdict {
	v := ready.Verdict{For: claim.Assignee(t)}
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Held {
			v.Again = c.StaleAt
		}
		return v
	}
	d := claim.Decide(t, v.For, bd.waitsFor(t), bd.now, bd.policy)
	if d.Code == claim.CodeHeld {
		v.Again = bd.policy.StaleAt(t.ClaimedAt, bd.policy.LeaseOf(t))
	}
	v.Ready = d.Code == "" && (t.Status == task.Open || v.For != "")
	return v
}

// view is t as the agent sees it, or anybody if that is empty.
func (bd *board) view(t task.Task, agent string) View {
	v := View{Task: t, Ready: bd.ready(t, agent), WaitsFor: bd.waitsFor(t)}
	v.WaitingFor = bd.known(v.WaitsFor)
	if !v.Ready {
		v.Code, v.Reason = bd.why(t, v, agent)
	}
	if t.Status == task.Open || t.Status == task.InProgress {
		v.LeaseUntil = bd.policy.LeaseEnd(t) // on any other task, the claim is history
	}
	if c, ok := bd.claimer.On(t.ID); ok && c.State == claim.Held {
		v.Claim, v.LeaseUntil = &c, c.ExpiresAt()
	} else if !ok {
		v.AssignedTo = claim.Assignee(t)
		if o, offered := bd.offers[t.ID]; offered && o.To == v.AssignedTo {
			v.Offer = &o
		}
	}
	return v
}

// offered returns the tasks that are ready for the agent, and that the filter may select by
// their priority: those assigned to the agent, which it is offered first, and those that any may
// claim.
func (b *Broker) offered(agent string, f task.Filter) (assigned, open ready.List) {
	assigned, open = b.ready.Assigned(agent), b.ready.Tasks()
	if f.Priority != nil {
		assigned, open = assigned.Of(*f.Priority), open.Of(*f.Priority)
	}
	return assigned, open
}

// atLimit reports whether the agent has as many tasks as it may.
func (b *Broker) atLimit(agent string, bd *board) bool {
	limit := b.limit(agent, bd.policy)
	return agent != "" && limit > 0 && len(bd.claimer.Claims(agent)) >= limit
}

// Task returns one task of the mirror, or ErrNoTask.
func (b *Broker) Task(ctx context.Context, id task.ID) (View, error) {
	bd := b.present()
	t, ok := bd.Task(id)
	if !ok {
		return View{}, ErrNoTask
	}
	if err := b.load(ctx, bd); err != nil {
		return View{}, err
	}
	return bd.view(t, ""), nil
}

// TaskByKey returns the id of the task with that key, in whatever case, or ErrNoTask.
func (b *Broker) TaskByKey(ctx context.Context, key string) (task.ID, error) {
	for t := range b.mirror.Tasks() {
		if t.IsKey(key) {
			return t.ID, nil
		}
	}
	return "", fmt.Errorf("%w %s; if it was just made: dibs sync", ErrNoTask, key)
}

// Claims returns the claims held through this daemon, oldest first: all, or
// those of one agent.
func (b *Broker) Claims(ctx context.Context, agent string) ([]claim.Claim, error) {
	return b.claimer.Claims(agent), nil
}
