package broker

import (
	"context"
	"fmt"
	"slices"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Reopening asks to give a task that no agent has another status.
type Reopening struct {
	Task task.ID
	// Agent asks; it is empty if a person does, see By.
	Agent string
	// By is the user that asks if no agent does: task.UserSignature.
	By   string
	Note string
	// Was is the status that the caller saw, and Status the new one, in any words, and Holder the
	// name that it saw, see claim.Reopening.
	Was, Status, Holder string
}

// Reopen gives a task another status. See claim.Claimer.Reopen. The error is an *InvalidError if Was
// or Status will not do. An agent may only open a task: it ends what it holds, and other tasks are
// for people to decide.
func (b *Broker) Reopen(ctx context.Context, r Reopening) (api.Reopened, error) {
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
	t, known := b.mirror.Task(r.Task)
	if !known {
		t = task.Task{ID: r.Task}
	}
	t, was, err := b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: r.By, Note: r.Note, Was: seen, Holder: r.Holder, To: to})
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
