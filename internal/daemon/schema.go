package daemon

import (
	"context"
	"time"

	"dibs/config"
	"dibs/internal/broker"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// schemaOf says in the adapter's terms what the configuration calls things.
func schemaOf(c config.Config) notion.TaskSchema {
	users := make(map[string]string)
	for _, a := range c.Agents {
		if a.NotionUser != "" {
			users[a.Name] = a.NotionUser
		}
	}
	p, s, prio := c.Tasks.Properties, c.Tasks.Statuses, c.Tasks.Priorities
	return notion.TaskSchema{
		Properties: notion.Properties{
			Status: p.Status, ClaimedBy: p.ClaimedBy, ClaimedAt: p.ClaimedAt,
			ClaimTimeoutMinutes: p.ClaimTimeoutMinutes, ClaimToken: p.ClaimToken,
			Priority: p.Priority, DependsOn: p.DependsOn,
		},
		Statuses: map[task.Status]string{
			task.Open: s.Open, task.InProgress: s.InProgress, task.Blocked: s.Blocked,
			task.Completed: s.Completed, task.Cancelled: s.Cancelled,
		},
		Priorities: map[task.Priority][]string{
			task.Critical: prio.Critical, task.High: prio.High, task.Medium: prio.Medium, task.Low: prio.Low,
		},
		NotionUsers: users,
	}
}

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
	tasks, _, err := s.Query(ctx, notion.Query{EditedSince: t})
	return tasks, err
}
