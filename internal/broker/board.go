package broker

import (
	"context"
	"fmt"
	"iter"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/mirror"
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

// occupied returns the claim of this daemon that keeps a task from everybody else, if
// there is one. A claim that has gone stale does not keep anybody from it.
func (bd *board) occupied(id task.ID) (claim.Claim, bool) {
	c, taken := bd.claimer.On(id)
	return c, taken && (c.State != claim.Held || !bd.now.After(c.StaleAt))
}

// ready reports whether a claim on t would pass the pre-flight if Notion shows what the
// mirror shows: t is OPEN, nobody holds it and nothing blocks it.
func (bd *board) ready(t task.Task) bool {
	ok, _ := bd.judge(t)
	return ok
}

// judge is ready, and says when a task that is not may become so by itself, because a
// lease ends; zero if it will not.
func (bd *board) judge(t task.Task) (ready bool, again time.Time) {
	if t.Status != task.Open {
		return false, time.Time{}
	}
	if c, taken := bd.occupied(t.ID); taken {
		if c.State == claim.Held {
			again = c.StaleAt
		}
		return false, again
	}
	d := claim.Decide(t, bd.waitsFor(t), bd.now, bd.policy)
	if d.Code == claim.CodeHeld {
		again = bd.policy.StaleAt(t.ClaimedAt, bd.policy.LeaseOf(t))
	}
	return d.Code == "", again
}

func (bd *board) view(t task.Task) View {
	v := View{Task: t, Ready: bd.ready(t), WaitsFor: bd.waitsFor(t)}
	v.WaitingFor = bd.known(v.WaitsFor)
	if !v.Ready {
		v.Code, v.Reason = bd.why(t, v)
	}
	if t.Status == task.Open || t.Status == task.InProgress {
		v.LeaseUntil = bd.policy.LeaseEnd(t) // on any other task, the claim is history
	}
	if c, ok := bd.claimer.On(t.ID); ok && c.State == claim.Held {
		v.Claim, v.LeaseUntil = &c, c.ExpiresAt()
	}
	return v
}

// Tasks lists the tasks that f selects: those that are ready in the order in which they
// are offered; of all, first those that are worked on, see matters.
func (b *Broker) Tasks(ctx context.Context, f api.TaskFilter) (Listing, error) {
	bd := b.board()
	if f.Ready {
		bd.tasks = b.ready.Tasks()
	}
	out := Listing{Age: ageOf(bd.standing), Tasks: []View{}}
	var selected []task.Task
	for t := range bd.tasks {
		switch {
		case t.Trashed,
			f.Status != "" && t.Status != f.Status,
			f.Agent != "" && t.ClaimedBy != f.Agent,
			f.Ready && !bd.ready(t):
			continue
		}
		selected = append(selected, t)
	}
	out.Total = len(selected)
	if !f.Ready {
		bd.sort(selected)
	}
	if f.Limit > 0 && len(selected) > f.Limit {
		selected = selected[:f.Limit]
	}
	for _, t := range selected {
		out.Tasks = append(out.Tasks, bd.view(t))
	}
	return out, nil
}

// Task returns one task of the mirror, or ErrNoTask.
func (b *Broker) Task(ctx context.Context, id task.ID) (View, error) {
	bd := b.present()
	t, ok := bd.Task(id)
	if !ok {
		return View{}, ErrNoTask
	}
	return bd.view(t), nil
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
