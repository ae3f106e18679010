package broker

import (
	"context"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/ready"
	"dibs/internal/task"
)

// CodeFiltered is the code of a task that is ready, and not what was asked for. It is
// never that of a denial.
const CodeFiltered claim.Code = "filtered"

// Tasks lists the tasks that f selects: those that are ready in the order in which they
// are offered; of all, first those that are worked on, see matters. With f.Why, those that
// are ready come first, and then the others. The error is an *InvalidError if the filter
// cannot be used.
func (b *Broker) Tasks(ctx context.Context, f api.TaskFilter) (api.Tasks, error) {
	filter, err := b.filter(f.Filter)
	if err != nil {
		return api.Tasks{}, err
	}
	bd := b.board()
	out := api.Tasks{Age: b.age(ageOf(bd.standing)), Tasks: []api.Task{}}
	if err := b.load(ctx, bd); err != nil {
		return out, err
	}
	out.LimitReached = f.Ready && b.atLimit(f.Agent, bd)
	if out.LimitReached && !f.Why {
		return out, nil
	}
	var selected []task.Task
	var held func(task.Task, *api.Task) // says of a task that is ready why it cannot be had all the same
	switch {
	case f.Why:
		selected, _ = b.readyTasks(bd, f, filter, 0)
		selected = append(selected, bd.others(selected, f)...)
		out.Total = len(selected)
		held = b.heldBack(bd, f.Agent, filter, out.LimitReached)
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
		if held != nil && v.Ready {
			held(t, &v)
		}
		out.Tasks = append(out.Tasks, v)
	}
	return out, nil
}

// readyTasks returns the first of the tasks that are ready for f.Agent and that f selects, in the
// order in which they are offered, and how many there are in all. limit is how many are
// returned, 0 for all. Behind those no task is looked at, but for fields and words that f wants.
func (b *Broker) readyTasks(bd *board, f api.TaskFilter, filter task.Filter, limit int) (first []task.Task, total int) {
	listed := f.Status == "" && len(filter.Where) == 0 && len(filter.Words) == 0 // all that offered returns
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
			if f.Status != "" && t.Status != f.Status || !filter.Match(t) || !full && !bd.ready(t, f.Agent) {
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
func (bd *board) matching(f api.TaskFilter, filter task.Filter) (out []task.Task) {
	for t := range bd.tasks {
		if t.Trashed || f.Status != "" && t.Status != f.Status || f.Agent != "" && t.ClaimedBy != f.Agent || !filter.Match(t) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// others returns the unfinished tasks that are not among those selected, in the order in
// which they matter.
func (bd *board) others(selected []task.Task, f api.TaskFilter) []task.Task {
	listed := make(map[task.ID]bool, len(selected))
	for _, t := range selected {
		listed[t.ID] = true
	}
	var rest []task.Task
	for t := range bd.tasks {
		if !t.Trashed && !t.Status.Finished() && !listed[t.ID] && (f.Status == "" || t.Status == f.Status) {
			rest = append(rest, t)
		}
	}
	bd.sort(rest, f.Agent)
	return rest
}

// heldBack returns what says of tasks that are ready why the agent could not get them now
// all the same.
func (b *Broker) heldBack(bd *board, agent string, f task.Filter, limit bool) func(task.Task, *api.Task) {
	closed, doubt := b.mirror.Closed(), b.doubt()
	return func(t task.Task, out *api.Task) {
		switch miss := f.Miss(t); {
		case doubt != nil:
			unready(out, claim.CodeJournalUnavailable, "no task can be claimed: "+doubt.Error())
		case closed != nil:
			unready(out, claim.CodeNotionRefused, "no task can be claimed: "+closed.Error())
		case limit:
			unready(out, claim.CodeLimitReached, fmt.Sprintf("%s holds as many tasks as it may (max_per_agent, %d)", agent, b.limit(agent, bd.policy)))
		case miss != "":
			unready(out, CodeFiltered, "it is not what was asked for: "+miss)
		case b.troubles.passed(t.ID):
			unready(out, claim.CodeNotionUnavailable, b.troubles.why(t.ID))
		}
	}
}
