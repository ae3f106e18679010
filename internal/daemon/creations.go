package daemon

import (
	"context"
	"errors"

	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// creations is the tasks database as tasks are made in it.
type creations struct {
	*notion.Tasks
	lookup func() notion.Lookup // the broker is made last
}

// Plan implements creation.Tasks.
func (c creations) Plan(ctx context.Context, d task.Draft) (creation.Plan, error) {
	p, err := c.Tasks.Plan(ctx, d, c.lookup())
	if err != nil {
		return nil, err
	}
	return plan{p}, nil
}

// Find implements creation.Tasks.
func (c creations) Find(ctx context.Context, s creation.Sought) ([]creation.Found, error) {
	pages, err := c.FindNew(ctx, s.ID, s.Title, s.Since)
	found := make([]creation.Found, len(pages))
	for i, p := range pages {
		found[i] = creation.Found(p)
	}
	return found, err
}

// maker makes tasks and reads their pages.
type maker struct {
	*creation.Maker
	*notion.Tasks
}

func (d *works) newMaker() maker {
	lookup := func() notion.Lookup { return notion.Lookup{Person: d.broker.Person, Task: d.broker.Named} }
	return maker{creation.New(d.journal, creations{d.tasks, lookup}, d.mirror.Observe, d.log), d.tasks}
}

// plan is a plan whose errors are those of package creation.
type plan struct{ *notion.Plan }

// Create implements creation.Plan.
func (p plan) Create(ctx context.Context, id string) (r claim.Reading, err error) {
	r, err = p.Plan.Create(ctx, id)
	var made *notion.CreatedError
	if errors.As(err, &made) {
		err = &creation.SavedError{Page: made.Page, Err: made}
	}
	return r, err
}
