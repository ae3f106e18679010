package broker

import (
	"cmp"
	"context"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// Story tells what happened to a task, or to one claim. It fails with
// claim.ErrUnknownClaim or ErrNoTask.
func (b *Broker) Story(ctx context.Context, _ Caller, in *api.StoryInput) (api.Story, error) {
	var t task.Task
	of, isClaim := claim.ParseID(in.ID)
	if isClaim {
		cl, err := b.claimer.Find(ctx, of)
		if err != nil {
			return api.Story{}, err
		}
		t = cl.Task
	} else {
		t.ID = task.ID(in.ID)
	}
	facts, err := b.journal.Log(ctx, api.LogFilter{Task: t.ID, Seen: true})
	if err != nil {
		return api.Story{}, err
	}
	if known, ok := b.mirror.Task(t.ID); ok {
		t = known
	} else if len(facts) > 0 { // it is no longer on the board
		for _, f := range facts {
			t.Key, t.Title, t.URL = cmp.Or(f.Key, t.Key), cmp.Or(f.Title, t.Title), cmp.Or(f.URL, t.URL)
			t.Status = cmp.Or(f.Status, t.Status, task.Unknown)
		}
	} else if !isClaim {
		return api.Story{}, ErrNoTask
	}
	return api.Story{Task: b.ref(t), Story: each(wording.Story(facts, of), func(s wording.Step) api.Step {
		return api.Step{At: b.time(s.At), Who: s.Who, What: s.What, Why: s.Why}
	})}, nil
}
