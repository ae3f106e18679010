package broker

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Reopening asks for a task to be open again.
type Reopening struct {
	Task task.ID
	// Agent is who asks; empty for a person, By.
	Agent string
	// By is the user who asks where no agent does: task.UserSignature.
	By   string
	Note string
	// Was is the status that was seen, see claim.Reopening.
	Was task.Status
}

// Reopen puts a task back to OPEN that nobody can claim any more. See
// claim.Claimer.Reopen.
func (b *Broker) Reopen(ctx context.Context, r Reopening) (api.Reopened, error) {
	t, known := b.mirror.Task(r.Task)
	if !known {
		t = task.Task{ID: r.Task}
	}
	t, was, err := b.claimer.Reopen(ctx, claim.Reopening{Task: t, Agent: r.Agent, By: r.By, Note: r.Note, Was: r.Was})
	b.Changed()
	if err != nil {
		return api.Reopened{}, err
	}
	return api.Reopened{Task: api.NewTaskRef(t), Was: was}, nil
}
