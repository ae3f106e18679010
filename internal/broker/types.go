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

// request asks for a claim.
type request struct {
	Caller
	agent string
	// task is the task wanted; empty means the first ready one.
	task task.ID
	// except excludes ready tasks; a named task is not excluded.
	except []task.ID
	// timeout is how long to keep the claim without hearing from the agent; zero means as long as
	// the lease.
	timeout time.Duration
	// wait is how long to wait for a task before a denial.
	wait time.Duration
	// keeper keeps the claim alive, if it has a process.
	keeper keepers.Keeper
	// note is for the record, if the claim is granted.
	note string
}

// ref names a claim: by its id, by its task's id, or, if claim is empty, as the only claim that
// agent holds.
type ref struct {
	claim string
	// agent, if not empty, must be the claim's agent.
	agent string
}

// refTo reads the name of a claim in a request, see api.Parts.
func refTo(id, agent string) ref {
	if id == api.OnlyClaim {
		id = ""
	}
	return ref{id, agent}
}

// orZero returns the optional body of a request.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// seconds reads a number of seconds in a request.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// ErrNoTask: the mirror has no task of that id.
var ErrNoTask = errors.New("the daemon knows no such task")

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
