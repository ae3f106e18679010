package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Reopen gives a task another status. See claim.Claimer.Reopen. The error is an *InvalidError if Was
// or Status will not do. An agent may only open a task: it ends what it holds, and other tasks are
// for people to decide.
func (b *Broker) Reopen(ctx context.Context, who Caller, in *api.ReopenInput) (api.Reopened, error) {
	r := orZero(in.Body)
	seen, err := b.status("was", r.Was)
	if err != nil {
		return api.Reopened{}, err
	}
	to, err := b.status("status", r.Status)
	switch {
	case err != nil:
		return api.Reopened{}, err
	case to != "" && !slices.Contains(claim.ToStatuses(), to):
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: a task gets %s by what agents do: want one of %v", to, claim.ToStatuses())}
	case to != "" && b.words.ByStatus()[to] == "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: the board has no option for %s: add one in Notion, and name it in tasks.statuses", to)}
	case to != "" && to != task.Open && r.Agent != "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("status: %s may only open a task: its holder, or a person in no agent's name, sets it to %s", r.Agent, to)}
	case to != "" && to != task.Open && seen == "":
		return api.Reopened{}, &InvalidError{fmt.Sprintf("was: say in which status you saw the task, so that %s replaces nothing else", to)}
	}
	t, known := b.mirror.Task(task.ID(in.ID))
	if !known {
		t = task.Task{ID: task.ID(in.ID)}
	}
	t, was, err := b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: who.signs(r.Agent), Note: r.Note, Was: seen, Holder: r.Holder, To: to})
	b.Changed()
	if err != nil {
		return api.Reopened{}, err
	}
	out := api.Reopened{Task: b.ref(t), Was: was}
	if name := b.words.StatusName(was); name != string(was) {
		out.WasName = name
	}
	return out, nil
}

// ReopenFailed opens the tasks whose last claim failed, by one of those agents, and that nobody
// edited or commented on since. It also returns those that somebody did. With DryRun it only returns
// them. It stops at an error; asked again, it goes on with the others.
func (b *Broker) ReopenFailed(ctx context.Context, who Caller, in *api.KeyedInput[api.ReopenFailedRequest]) (api.ReopenedTasks, error) {
	r := in.Body
	out := api.ReopenedTasks{Reopened: []api.TaskRef{}}
	if _, err := b.mirror.Sync(ctx, false); err != nil {
		return out, err
	}
	defer b.Changed()
	for _, t := range slices.Collect(b.mirror.Tasks()) {
		if t.Status != task.Failed && t.Status != task.Blocked || t.Trashed {
			continue
		}
		claims, err := b.journal.TaskClaims(ctx, t.ID)
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(claims, func(h claim.Hold) bool { return !h.Started.IsZero() })
		if i < 0 || !failedBy(r, claims[i]) || b.Local(claims[i].Ended).Before(r.Since.Time) {
			continue
		}
		last := claims[i]
		touched := last.Task.Status != t.Status || !claim.Unedited(last.Task, t)
		if !touched {
			touched, err = b.commentedSince(ctx, last)
		}
		if err == nil && !touched && !r.DryRun {
			var now task.Task
			if now, _, err = b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: who.signs(r.Agent), Note: r.Note, Was: t.Status, Left: &last.Task}); err == nil {
				t = now
			}
		}
		d, denied := errors.AsType[*claim.Denied](err)
		switch {
		case touched, denied && slices.Contains(justTouched, d.Code):
			out.Left = append(out.Left, b.ref(t))
		case err != nil:
			return out, err
		default:
			out.Reopened = append(out.Reopened, b.ref(t))
		}
	}
	return out, nil
}

// justTouched are the codes with which a claim.Claimer refuses to open what somebody touched just now.
var justTouched = []claim.Code{claim.CodeHeld, claim.CodeNotOpen, claim.CodeReserved, claim.CodeNotFound}

// failedBy reports whether a claim failed, of one of the agents that are meant.
func failedBy(r api.ReopenFailedRequest, h claim.Hold) bool {
	meant := func(pattern string) bool { return task.MatchAgent(pattern, h.Agent) }
	return h.Ending == claim.EndFailed && slices.ContainsFunc(r.FailedBy, meant)
}

// commentedSince reports whether the page of an ended claim has a comment that is newer than the
// claim's end, and that neither its agent nor dibs signed. The dates of comments are cut to the
// minute. Comments that dibs may not read count for nothing.
func (b *Broker) commentedSince(ctx context.Context, h claim.Hold) (bool, error) {
	comments, err := b.pages.Comments(ctx, h.Task.ID)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Refused {
		return false, nil
	}
	return slices.ContainsFunc(comments, func(c Comment) bool {
		own := c.Signed && (c.By == h.Agent || c.By == claim.Sweeper)
		return !own && !c.At.Before(h.Finish.At.Truncate(time.Minute))
	}), err
}
