package api

import (
	"dibs/internal/claim"
	"dibs/internal/task"
)

// TaskFilter selects tasks; its zero value selects all.
type TaskFilter struct {
	Status task.Status // empty: any
	Ready  bool        // only those that a claim could get now, in the order they are offered
	Agent  string      // only those claimed by this name; with Ready, those that this agent could get
	Limit  int         // at most that many; zero: all
}

// LogFilter selects entries of the local record.
type LogFilter struct {
	Agent string
	Task  task.ID
	Claim claim.ID
	After string // only entries after the one with this id
	Limit int    // the newest that many; zero: a hundred
}

// EventFilter selects events; its zero value selects all that are kept.
type EventFilter struct {
	After int64   // only those with a higher id; EventsFuture: only those that are yet to come
	Agent string  // only those that concern this agent, as whose claim it is or as the other party
	Task  task.ID // only those about this task
}
