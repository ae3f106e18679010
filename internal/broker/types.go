// Package broker is what agents and people at this machine ask of the daemon:
// claims on tasks by name or by turn, what becomes of them, and the state of
// the queue. It joins the claim protocol, the mirror and the journal. It answers in
// the types of package api, with this machine's time; Problem turns its errors into
// theirs. What it is asked bears Notion's time.
package broker

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Request asks for a claim.
type Request struct {
	Agent string
	// Task is the task wanted; empty means the first ready one.
	Task task.ID
	// Filter says which of the ready tasks will do; it does not count for a task that is named.
	Filter api.Filter
	// Except are ready tasks that will not do; nor do they count for a task that is named.
	Except []task.ID
	// Timeout is the lease length wanted; zero means the task's own, or the default.
	Timeout time.Duration
	// Wait is how long to wait for the task, or for a ready one, before a denial.
	Wait time.Duration
	// Keyed has a request that comes again find its claim.
	Keyed
	// Keeper, if its process is one, keeps the claim alive.
	Keeper alive.Keeper
	// Note is for the record, if the claim is granted.
	Note string
}

// Ref names a claim: by its id, by its task's id, or, if Claim is empty, as the
// only claim that Agent holds.
type Ref struct {
	Claim string
	// Agent, if not empty, must be the claim's agent.
	Agent string
}

// Errors of questions about claims and tasks.
var (
	// ErrNoTask: the mirror has no task of that id.
	ErrNoTask = errors.New("the daemon knows no such task")
)

// AmbiguousError says that an agent has no claim, or several, where its only one was meant.
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

// InvalidError is input that cannot be used; it says what and why.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// ForbiddenError is a caller that may not use an agent's name.
type ForbiddenError struct {
	Agent  string
	Detail string
}

func (e *ForbiddenError) Error() string { return e.Detail }
