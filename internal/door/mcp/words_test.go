package mcp_test

import (
	"strings"
	"testing"

	"dibs/internal/door/mcp"
)

// Tools take the board's words and dibs's. Their text has the board's.
func TestWords(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		tasks := w.notion.Databases().Tasks
		for column, options := range map[string][]string{"status": {"Offen", "In Arbeit"}, "priority": {"Hoch", "Niedrig"}} {
			for _, name := range options {
				if err := w.notion.AddOption(tasks, column, name); err != nil {
					w.Fatal(err)
				}
			}
		}
		w.halt()
		c := &w.options.Config.Tasks
		c.Statuses.Open, c.Statuses.InProgress, c.Priorities.High, c.Priorities.Low = "Offen", "In Arbeit", []string{"Hoch"}, []string{"Niedrig"}
		w.serve()
		s := w.connect(mcp.Options{Agent: "Sandman"})
		defer s.close()
		for _, args := range []string{`{"title":"Roof","priority":"HOCH"}`, `{"title":"Fence","priority":"low"}`} {
			if a := s.call("add_task", args); a.failed {
				w.Errorf("add_task %s: %s", args, a.text)
			}
		}
		s.call("claim_task", `{"priority":"niedrig"}`)
		for args, want := range map[string]string{
			`{"status":"in arbeit"}`:   "TASK-2 “Fence”, Niedrig, In Arbeit, Sandman",
			`{"status":"IN_PROGRESS"}`: "TASK-2 “Fence”, Niedrig, In Arbeit, Sandman",
			`{"priority":"high"}`:      "TASK-1 “Roof”, Hoch",
			`{"priority":"wichtig"}`:   `priority: "wichtig" is not a priority: want one of `,
			`{"status":"Offn"}`:        `status: "Offn" is not a status: want one of Offen, In Arbeit, BLOCKED, COMPLETED, CANCELLED`,
		} {
			if a := s.call("list_tasks", args); !strings.Contains(a.text, want) {
				w.Errorf("list_tasks %s: %s, want %s", args, a.text, want)
			}
		}
	})
}
