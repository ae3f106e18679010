package mcp

import (
	"fmt"
	"strings"

	"dibs/internal/api"
)

// ListArgs are the arguments of list_tasks.
type ListArgs struct {
	Who
	Mine bool `json:"mine,omitempty"`
	api.Filter
	Status string `json:"status,omitempty"`
	Limit  int    `json:"limit,omitempty" jsonschema:"default 20"`
}

// Listed is the answer of list_tasks.
type Listed struct {
	Tasks []Task `json:"tasks"`
	Total int    `json:"total"`
	Agent string `json:"agent"`
	News
}

// defaultLimit is the default of ListArgs.Limit.
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
	case in.Mine && (in.Status != "" || !in.Filter.Empty()):
		return "", out, usagef("mine goes with no filter: leave one of them out")
	case in.Mine:
		var held []api.Claim
		var err error
		if c.about {
			held, err = heldBy(c, c.daemon, c.agent.name)
		} else {
			held, _, err = c.refresh(c, c.agent)
		}
		if err != nil {
			return "", out, err
		}
		c.agent.granted(held...)
		what, out.Total = "held by "+line(c.agent.name), len(held)
		for _, cl := range held {
			out.Tasks = append(out.Tasks, heldTask(cl))
		}
	default:
		f := api.TaskFilter{Ready: true, Agent: c.agent.name, Limit: in.Limit, Filter: in.Filter}
		if in.Status != "" {
			f = api.TaskFilter{Status: in.Status, Limit: in.Limit, Filter: in.Filter}
			what = line(f.Status)
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
			what += ", as of " + timeOfDay(list.SyncedAt.Time)
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
