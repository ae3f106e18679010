package broker

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Reopening asks to make a task OPEN again.
type Reopening struct {
	Task task.ID
	// Agent asks; it is empty if a person does, see By.
	Agent string
	// By is the user that asks if no agent does: task.UserSignature.
	By   string
	Note string
	// Was is the status that the caller saw, in any words, see claim.Reopening.
	Was string
}

// Reopen sets a task that nobody can claim any more back to OPEN. See claim.Claimer.Reopen. The
// error is an *InvalidError if Was is no status.
func (b *Broker) Reopen(ctx context.Context, r Reopening) (api.Reopened, error) {
	seen, err := b.status("was", r.Was)
	if err != nil {
		return api.Reopened{}, err
	}
	t, known := b.mirror.Task(r.Task)
	if !known {
		t = task.Task{ID: r.Task}
	}
	t, was, err := b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: r.By, Note: r.Note, Was: seen})
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
