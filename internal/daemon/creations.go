package daemon

import (
	"context"

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
	return c.Tasks.Plan(ctx, d, c.lookup())
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
