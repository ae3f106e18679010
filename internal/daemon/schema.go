package daemon

import (
	"context"
	"time"

	"dibs/config"
	"dibs/internal/broker"
	"dibs/internal/notion"
	"dibs/internal/task"
)

func agentsOf(c config.Config) []broker.Agent {
	var out []broker.Agent
	for _, a := range c.Agents {
		out = append(out, broker.Agent{Name: a.Name, UIDs: a.UIDs})
	}
	return out
}

// source is the tasks database as the mirror reads it.
type source struct{ *notion.Tasks }

func (s source) List(ctx context.Context, since time.Time, read func(int)) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{UnfinishedOnly: true, FinishedSince: since, Progress: read})
	return tasks, err
}

func (s source) EditedSince(ctx context.Context, t time.Time) ([]task.Task, error) {
	tasks, _, err := s.Query(ctx, notion.Query{EditedSince: t, Claimed: true})
	return tasks, err
}

// blockers are the dependencies of a task for which somebody waits. Pages do not
// show them all while the database lacks a property.
func (d *Daemon) blockers(ctx context.Context, t task.Task) ([]task.ID, error) {
	if err := d.tasks.Broken(); err != nil {
		return nil, err
	}
	return d.mirror.Blockers(notion.Impatient(ctx), t)
}
