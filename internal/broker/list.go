package broker

import (
	"context"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// CodeFiltered is the code of a task that is ready, and not what was asked for. It is
// never that of a denial.
const CodeFiltered claim.Code = "filtered"

// Tasks lists the tasks that f selects: those that are ready in the order in which they
// are offered; of all, first those that are worked on, see matters. With f.Why, those that
// are ready come first, and then the others. The error is an *InvalidError if the filter
// cannot be used.
func (b *Broker) Tasks(ctx context.Context, f api.TaskFilter) (Listing, error) {
	filter, err := b.filter(f.Filter)
	if err != nil {
		return Listing{}, err
	}
	bd := b.board()
	out := Listing{Age: ageOf(bd.standing), Tasks: []View{}}
	if err := bd.load(ctx, b.inbox.Inbox); err != nil {
		return out, err
	}
	out.LimitReached = f.Ready && b.atLimit(f.Agent, bd)
	if out.LimitReached && !f.Why {
		return out, nil
	}
	all := bd.tasks
	if f.Ready {
		bd.tasks = b.offered(f.Agent)
	}
	var selected []task.Task
	for t := range bd.tasks {
		t = bd.current(t)
		switch {
		case t.Trashed,
			f.Status != "" && t.Status != f.Status,
			f.Agent != "" && !f.Ready && t.ClaimedBy != f.Agent,
			!filter.Match(t),
			f.Ready && !bd.ready(t, f.Agent):
			continue
		}
		selected = append(selected, t)
	}
	var held func(*View) // says of a task that is ready why it cannot be had all the same
	if f.Why {
		bd.tasks = all
		selected = append(selected, bd.others(selected, f)...)
		held = b.heldBack(bd, f.Agent, filter, out.LimitReached)
	}
	out.Total = len(selected)
	if !f.Ready {
		bd.sort(selected, f.Agent)
	}
	if f.Limit > 0 && len(selected) > f.Limit {
		selected = selected[:f.Limit]
	}
	for _, t := range selected {
		v := bd.view(t, f.Agent)
		if held != nil && v.Ready {
			held(&v)
		}
		out.Tasks = append(out.Tasks, v)
	}
	return out, nil
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
		t = bd.current(t)
		if !t.Trashed && !t.Status.Finished() && !listed[t.ID] && (f.Status == "" || t.Status == f.Status) {
			rest = append(rest, t)
		}
	}
	bd.sort(rest, f.Agent)
	return rest
}

// heldBack returns what says of tasks that are ready why the agent could not get them now
// all the same.
func (b *Broker) heldBack(bd *board, agent string, f task.Filter, limit bool) func(*View) {
	closed := b.mirror.Closed()
	return func(v *View) {
		switch miss := f.Miss(v.Task); {
		case closed != nil:
			v.Code, v.Reason = claim.CodeNotionRefused, "no task can be claimed: "+closed.Error()
		case limit:
			v.Code, v.Reason = claim.CodeLimitReached, fmt.Sprintf("%s holds as many tasks as it may (max_per_agent, %d)", agent, b.limit(agent, bd.policy))
		case miss != "":
			v.Code, v.Reason = CodeFiltered, "it is not what was asked for: "+miss
		case b.troubles.passed(v.ID):
			v.Code, v.Reason = claim.CodeNotionUnavailable, b.troubles.why(v.ID)
		default:
			return
		}
		v.Ready = false
	}
}
