// Package workspace translates the configuration of a workspace into the Notion adapter's terms:
// how to reach it, and the names that its tasks database uses.
package workspace

import (
	"log/slog"
	"net/http"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// Connect returns a client of the workspace. It sends nothing. A nil transport means the network.
func Connect(c config.Notion, transport http.RoundTripper, log *slog.Logger) (*notion.Client, error) {
	token, err := c.ReadToken(log)
	if err != nil {
		return nil, err
	}
	return notion.New(notion.Options{
		Token: string(token), BaseURL: c.BaseURL,
		Rate: c.Rate, Burst: c.Burst, Timeout: c.Timeout,
		Transport: transport, Log: log,
	})
}

// TasksSource is the configuration key of the tasks' data source.
const TasksSource = "databases.tasks_source"

// Choose tells the client which data source of each database to use. It sends nothing.
func Choose(client *notion.Client, d config.Databases) {
	for _, db := range d.All() {
		client.Choose(task.ID(db.ID), db.Key+"_source", db.Source)
	}
}

// Schema returns the names that the tasks database uses.
func Schema(c config.Config) notion.TaskSchema {
	users := make(map[string]string)
	for _, a := range c.Agents {
		if a.NotionUser != "" {
			users[a.Name] = a.NotionUser
		}
	}
	p, s, prio := c.Tasks.Properties, c.Tasks.Statuses, c.Tasks.Priorities
	schema := notion.TaskSchema{
		Properties: notion.Properties(p),
		Statuses: map[task.Status]string{
			task.Open: s.Open, task.InProgress: s.InProgress, task.Blocked: s.Blocked,
			task.Completed: s.Completed, task.Cancelled: s.Cancelled,
			task.Review: s.Review, task.Failed: s.Failed,
		},
		Priorities: map[task.Priority][]string{
			task.Critical: prio.Critical, task.High: prio.High, task.Medium: prio.Medium, task.Low: prio.Low,
		},
		NotionUsers: users,
		Fields:      c.Tasks.Fields,
	}
	schema.Only, _ = c.Tasks.Scope() // it is validated
	for key, name := range map[string]string{
		"claim_timeout_minutes": p.ClaimTimeoutMinutes, "priority": p.Priority, "depends_on": p.DependsOn, "note": p.Note,
	} {
		if name == "" {
			schema.Without = append(schema.Without, key)
		}
	}
	return schema
}
