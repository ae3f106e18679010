package mcp

import (
	"fmt"
	"strings"

	"dibs/internal/api"
	"dibs/internal/task"
)

// ListArgs are the arguments of list_tasks.
type ListArgs struct {
	Who
	Mine   bool   `json:"mine,omitempty"`
	Status string `json:"status,omitempty" jsonschema:"all of that status"`
	Limit  int    `json:"limit,omitempty" jsonschema:"default 20"`
}

// Listed is the answer of list_tasks.
type Listed struct {
	Tasks []Task `json:"tasks"`
	Total int    `json:"total"`
	Agent string `json:"agent"`
	News
}

// defaultLimit is how many tasks are listed.
const defaultLimit = 20

func listTasks(c *call, in ListArgs) (string, Listed, error) {
	out := Listed{Tasks: []Task{}, Agent: c.agent.name}
	if in.Limit < 0 {
		return "", out, usagef("limit: want 1 or more")
	}
	if in.Limit == 0 {
		in.Limit = defaultLimit
	}
	what := "ready for " + line(c.agent.name)
	switch {
	case in.Mine && in.Status != "":
		return "", out, usagef("mine and status exclude each other")
	case in.Mine:
		held, _, err := c.look(c, c.agent)
		if err != nil {
			return "", out, err
		}
		c.agent.holds(held...)
		what, out.Total = "held by "+line(c.agent.name), len(held)
		for _, cl := range held {
			out.Tasks = append(out.Tasks, heldTask(cl))
		}
	default:
		f := api.TaskFilter{Ready: true, Agent: c.agent.name, Limit: in.Limit}
		if in.Status != "" {
			f = api.TaskFilter{Status: task.Status(strings.ToUpper(in.Status)), Limit: in.Limit}
			what = string(f.Status)
		}
		list, err := c.daemon.Tasks(c, f)
		if err != nil {
			return "", out, err
		}
		out.Total = max(list.Total, len(list.Tasks))
		for _, t := range list.Tasks {
			listed := listedTask(t)
			if f.Ready {
				listed.Reason = ""
			}
			out.Tasks = append(out.Tasks, listed)
		}
		if list.LimitReached {
			what += ", which holds as many as it may"
		}
		if list.Stale {
			what += ", as of " + clock(list.SyncedAt.Time)
		}
	}
	out.Tasks = out.Tasks[:min(len(out.Tasks), in.Limit)]
	return listText(out, what, in), out, nil
}

func listText(out Listed, what string, in ListArgs) string {
	var text strings.Builder
	switch {
	case out.Total == 0 && !in.Mine && in.Status == "":
		fmt.Fprintf(&text, "No task is %s. Call claim_task with wait_seconds to wait for one.", what)
	case out.Total == 0:
		fmt.Fprintf(&text, "No task is %s.", what)
	case len(out.Tasks) < out.Total:
		fmt.Fprintf(&text, "%d of %d tasks %s:", len(out.Tasks), out.Total, what)
	default:
		fmt.Fprintf(&text, "Tasks %s:", what)
	}
	for _, t := range out.Tasks {
		text.WriteString("\n- " + taskLine(t))
	}
	return text.String()
}

// ShowArgs are the arguments of show_task.
type ShowArgs struct {
	Who
	Task string `json:"task" jsonschema:"its id, key or URL"`
}

// Shown is the answer of show_task.
type Shown struct {
	Task    Task   `json:"task"`
	URL     string `json:"url,omitempty"`
	Note    string `json:"note,omitempty"`
	Waiting []Task `json:"waiting_for,omitempty"`
	News
}

func showTask(c *call, in ShowArgs) (string, Shown, error) {
	id, err := taskID(in.Task)
	if err == nil && id == "" {
		err = usagef("which task? name it in task")
	}
	if err != nil {
		return "", Shown{}, err
	}
	t, err := c.daemon.Task(c, id)
	if err != nil {
		return "", Shown{}, err
	}
	out := Shown{Task: listedTask(t), URL: t.URL, Note: line(t.Note)}
	text := taskLine(out.Task)
	for _, w := range t.WaitingFor {
		waited := taskOf(w.TaskRef)
		waited.Agent = line(w.Agent)
		out.Waiting = append(out.Waiting, waited)
		text += "\nwaits for " + taskLine(waited)
	}
	if out.Task.ClaimID != "" && out.Task.Agent == c.agent.name {
		out.Task.Reason = "" // it is the agent's own claim that keeps all from claiming it
	}
	if out.Task.Reason != "" && len(out.Waiting) == 0 {
		text += "\ncannot be claimed: " + out.Task.Reason
	}
	if out.Note != "" {
		text += "\nnote: " + out.Note
	}
	return text, out, nil
}
