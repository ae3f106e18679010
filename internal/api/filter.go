package api

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Filter selects tasks by the contents of their pages; its zero value selects all. A task has to
// meet every part of it. The jsonschema tags describe the arguments of MCP's tools.
type Filter struct {
	Priority string   `json:"priority,omitempty" maxLength:"200" doc:"Only tasks of this priority, in dibs's words (critical, high, medium, low, none) or the board's"`
	Where    []string `json:"where,omitempty" fit:"pairs" maxItems:"20" doc:"NAME=VALUE each: only tasks whose field, one of tasks.fields or title, key, status, priority, claimed_by or note, has this value; of a list, among others" jsonschema:"each FIELD=VALUE"`
	Text     string   `json:"text,omitempty" maxLength:"1000" doc:"Only tasks whose title has all these words in it, in whatever case" jsonschema:"words of the title"`
}

// Empty reports whether the filter selects all tasks.
func (f Filter) Empty() bool { return f.Priority == "" && len(f.Where) == 0 && f.Text == "" }

// TaskFilter selects tasks; its zero value selects all.
type TaskFilter struct {
	Filter
	Status string // in dibs's words or the board's; empty: any
	Ready  bool   // only those that a claim could get now, in the order in which they are offered
	Agent  string // only those claimed by this name; with Ready, those that this agent could get
	Limit  int    // at most that many; zero: all
	// Why, with Ready, adds the unfinished tasks that are not ready, each with the reason.
	Why bool
}

// LogFilter selects entries of the local record.
type LogFilter struct {
	Agent string
	Task  task.ID
	Claim claim.ID
	After string    // only entries after the one with this id
	Since time.Time // only what happened at this time or later
	Seen  bool      // also what was only seen on the board, such as people's edits
	Limit int       // the newest that many; zero: a hundred
}

// EventFilter selects events; its zero value selects all that are kept.
type EventFilter struct {
	After int64   // only those with a higher id; EventsFuture: only those that are yet to come
	Agent string  // only those that concern this agent, as whose claim it is or as the other party
	Task  task.ID // only those about this task
	// Patient readers do not make the daemon ask Notion more often.
	Patient bool
}
