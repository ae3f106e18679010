// Package broker answers the requests of agents and people at this machine: it gets and ends
// claims, and shows tasks, inboxes and the state of the queue. It joins the claim protocol, the
// mirror and the journal. Requests bear Notion's time. Answers are in the types of package api,
// with this machine's time; Problem converts errors. Questions and waiting cost no requests to
// Notion, except for a page's text.
package broker

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/task"
)

// Request asks for a claim.
type Request struct {
	Agent string
	// Task is the task wanted; empty means the first ready one.
	Task task.ID
	// Filter selects among the ready tasks; a named task is not filtered.
	Filter api.Filter
	// Except excludes ready tasks; a named task is not excluded.
	Except []task.ID
	// Timeout is the lease length; zero means the task's own, or the default.
	Timeout time.Duration
	// Wait is how long to wait for a task before a denial.
	Wait time.Duration
	// Keyed has a request that comes again find its claim.
	Keyed
	// Keeper keeps the claim alive, if it has a process.
	Keeper keepers.Keeper
	// Note is for the record, if the claim is granted.
	Note string
}

// Ref names a claim: by its id, by its task's id, or, if Claim is empty, as the only claim that
// Agent holds.
type Ref struct {
	Claim string
	// Agent, if not empty, must be the claim's agent.
	Agent string
	// Report is what the agent says of its work, for a renewal.
	Report claim.Report
}

var (
	// ErrNoTask: the mirror has no task of that id.
	ErrNoTask = errors.New("the daemon knows no such task")
)

// AmbiguousError says that an agent was to have one claim, but has none or several.
type AmbiguousError struct {
	Agent  string
	Claims []claim.Hold
}

func (e *AmbiguousError) Error() string {
	if len(e.Claims) == 0 {
		return fmt.Sprintf("%s holds no claim", e.Agent)
	}
	return fmt.Sprintf("%s holds %d tasks, say which one: %s", e.Agent, len(e.Claims), claim.TasksOf(e.Claims))
}

// InvalidError says what is wrong with a request, and why.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// ForbiddenError says that a caller may not use an agent's name, or, if Agent is empty, that only
// the daemon's user and root may do this.
type ForbiddenError struct {
	Agent  string
	Detail string
}

func (e *ForbiddenError) Error() string { return e.Detail }
