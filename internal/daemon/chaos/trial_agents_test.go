package chaos_test

import (
	"context"
	"time"

	"dibs/internal/api"
)

// trialAgent is an agent that claims and finishes tasks as fast as it can.
type trialAgent struct {
	*chaosAgent
	trial *trial
}

// hot is how many tasks are wanted by many agents of all daemons at once.
const hot = 8

func (a *trialAgent) work(ctx context.Context) {
	for ctx.Err() == nil {
		body := api.ClaimRequest{Agent: a.name}
		if a.chance(20) {
			body.Task = a.trial.ids[a.random.IntN(min(hot, len(a.trial.ids)))]
		}
		cl, ok := a.ask(ctx, body)
		if !ok {
			sleep(ctx, a.upTo(time.Second)) // every failure takes time
			continue
		}
		a.trial.made.Add(1)
		switch {
		case a.chance(a.trial.holding):
			a.workOn(ctx, cl)
		default:
			sleep(ctx, a.upTo(20*time.Millisecond))
		}
		a.end(cl)
	}
}

// reopen lets a person reopen finished tasks until ctx ends.
func (tr *trial) reopen(ctx context.Context) {
	for sleep(ctx, time.Second) {
		for _, page := range tr.notion.Pages(tr.chaos.tasks) {
			if s := page.Select("status"); s == "OPEN" || s == "IN_PROGRESS" {
				continue
			}
			if err := tr.notion.EditPage(page.ID, opened); err != nil {
				tr.Error(err)
			}
		}
	}
}
