package broker

import (
	"context"
	"errors"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/broker/ready"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// CodeFiltered is the code of a ready task that the filter excludes. No denial has it.
const CodeFiltered claim.Code = "filtered"

// ListTasks lists the tasks that f selects. Ready ones come in the order in which they are offered; all
// tasks come in the order of matters. With f.Why, the ready ones come first and then the others.
// The error is an *InvalidError if the filter cannot be used.
func (b *Broker) ListTasks(ctx context.Context, _ Caller, in *api.ListTasksInput) (api.Tasks, error) {
	f := *in
	if f.Why && !f.Ready {
		return api.Tasks{}, api.Invalid("query.why", errors.New("goes with ready=true only"))
	}
	filter, err := b.filter(api.Filter{Priority: f.Priority, Where: f.Where, Text: f.Text})
	if err != nil {
		return api.Tasks{}, err
	}
	if f.Agent != "" {
		b.mirror.Use(ctx)
	}
	status, err := b.status("status", f.Status)
	if err != nil {
		return api.Tasks{}, err
	}
	f.Status = string(status)
	bd := b.board()
	out := api.Tasks{Age: b.age(ageOf(bd.standing)), Tasks: []api.Task{}}
	if err := b.load(ctx, bd, f.Agent); err != nil {
		return out, err
	}
	out.LimitReached = f.Ready && b.atLimit(f.Agent, bd)
	if out.LimitReached && !f.Why {
		return out, nil
	}
	var selected []task.Task
	var withhold func(task.Task, *api.Task) // turns a ready task into an unready one, where it cannot be claimed after all
	switch {
	case f.Why:
		selected, _ = b.readyTasks(bd, f, filter, 0)
		selected = append(selected, bd.rest(selected, f)...)
		out.Total = len(selected)
		if withhold, err = b.withholding(ctx, bd, f.Agent, filter, out.LimitReached); err != nil {
			return out, err
		}
	case f.Ready:
		selected, out.Total = b.readyTasks(bd, f, filter, f.Limit)
	default:
		selected = bd.matching(f, filter)
		out.Total = len(selected)
		bd.sort(selected, f.Agent)
	}
	if f.Limit > 0 && len(selected) > f.Limit {
		selected = selected[:f.Limit]
	}
	for _, t := range selected {
		v := bd.view(t, f.Agent)
		if withhold != nil && v.Ready {
			withhold(t, &v)
		}
		out.Tasks = append(out.Tasks, v)
	}
	return out, nil
}

// readyTasks returns the first tasks that are ready for f.Agent and selected by f, in the order in
// which they are offered, and how many there are in all. limit is how many to return, 0 for all. It
// looks at tasks beyond the limit only if f selects by fields, words or status.
func (b *Broker) readyTasks(bd *board, f api.ListTasksInput, filter task.Filter, limit int) (first []task.Task, total int) {
	listed := f.Status == "" && len(filter.Where) == 0 && len(filter.Words) == 0 && len(bd.kept) == 0 // everything that offered returns
	assigned, open := b.offered(f.Agent, filter)
	for _, list := range []ready.List{assigned, open} {
		left := list.Len()
		for t := range list.All() {
			full := limit > 0 && len(first) == limit
			if full && listed {
				total += left
				break
			}
			left--
			if f.Status != "" && string(t.Status) != f.Status || !filter.Match(t) || !full && !bd.ready(t, f.Agent) {
				continue
			}
			total++
			if !full {
				first = append(first, t)
			}
		}
	}
	return first, total
}

// matching returns all tasks that f selects, ready or not.
func (bd *board) matching(f api.ListTasksInput, filter task.Filter) (out []task.Task) {
	for t := range bd.tasks {
		if t.Trashed || f.Status != "" && string(t.Status) != f.Status || f.Agent != "" && claim.Whose(t) != f.Agent || !filter.Match(t) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// rest returns the unfinished tasks that were not selected, in the order of matters.
func (bd *board) rest(selected []task.Task, f api.ListTasksInput) []task.Task {
	listed := make(map[task.ID]bool, len(selected))
	for _, t := range selected {
		listed[t.ID] = true
	}
	var out []task.Task
	for t := range bd.tasks {
		if !t.Trashed && !t.Status.Finished() && !listed[t.ID] && (f.Status == "" || string(t.Status) == f.Status) {
			out = append(out, t)
		}
	}
	bd.sort(out, f.Agent)
	return out
}

// withholding returns a function that marks a ready task as unready, with the reason, if the agent
// could not claim it now after all.
func (b *Broker) withholding(ctx context.Context, bd *board, agent string, f task.Filter, limit bool) (func(task.Task, *api.Task), error) {
	closed, doubt := b.mirror.Closed(), b.doubt()
	barred, err := b.paused(ctx, agent)
	return func(t task.Task, out *api.Task) {
		switch miss := f.Miss(t, b.words); {
		case doubt != nil:
			unready(out, claim.CodeJournalUnavailable, "no task can be claimed: "+doubt.Error())
		case closed != nil:
			unready(out, claim.CodeNotionRefused, "no task can be claimed: "+closed.Error())
		case barred != nil:
			unready(out, barred.Code, barred.Detail)
		case limit:
			unready(out, claim.CodeLimitReached, fmt.Sprintf("%s holds as many tasks as it may (max_per_agent, %d)", agent, b.limit(agent, bd.policy)))
		case miss != "":
			unready(out, CodeFiltered, "it is not what was asked for: "+miss)
		case b.troubles.passed(t.ID):
			unready(out, claim.CodeNotionUnavailable, b.troubles.why(t.ID))
		}
	}, err
}
