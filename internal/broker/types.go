// Package broker is what agents and people at this machine ask of the daemon:
// claims on tasks by name or by turn, what becomes of them, and the state of
// the queue. It joins the claim protocol, the mirror and the journal; the
// socket API above it only translates.
//
// What it says of tasks, claims and events it says in the terms of their packages,
// and all else in the types of package api. Unless something else is said of them,
// all times it hands out are Notion's, those in types of package api too; Local
// turns them into this machine's.
package broker

import (
	"errors"
	"fmt"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/inbox"
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
	// Key is the request's idempotency key, if it has one, and UID the user whose key
	// it is, -1 for an unknown one.
	Key string
	UID int
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

// View is a task as the mirror knows it, and what that means for a claim.
type View struct {
	task.Task
	// Ready is whether the agent that was asked about could claim the task now, or any
	// agent, if none was.
	Ready bool
	// AssignedTo is the only agent that may claim the task; empty if any may.
	AssignedTo string
	// WaitsFor lists the dependencies that are not COMPLETED.
	WaitsFor []task.ID
	// WaitingFor is WaitsFor with what is known of each; of one that is not known, the id.
	WaitingFor []task.Task
	// Code says why a claim could not get the task now, as its denial would, and Reason
	// says it in a line; both are empty if it could.
	Code   claim.Code
	Reason string
	// Claim is the claim held through this daemon, if there is one.
	Claim *claim.Claim
	// LeaseUntil is when the holder's lease ends; zero if there is no holder or
	// the task is an assignment.
	LeaseUntil time.Time
	// Offer is the offer that AssignedTo has yet to answer, if it is one.
	Offer *inbox.Offer
}

// Listing is what a question about tasks is answered with.
type Listing struct {
	Tasks []View
	Total int // how many there are, whatever the limit
	// LimitReached is set if no task is ready for the agent only because it has as many
	// as it may.
	LimitReached bool
	Age          api.Age
}

// Errors of questions about claims and tasks.
var (
	// ErrNoTask: the mirror has no task of that id.
	ErrNoTask = errors.New("the daemon knows no such task")
)

// AmbiguousError says that an agent has no claim, or several, where its only one was meant.
type AmbiguousError struct {
	Agent  string
	Claims []claim.Claim
}

func (e *AmbiguousError) Error() string {
	if len(e.Claims) == 0 {
		return fmt.Sprintf("%s holds no claim", e.Agent)
	}
	return fmt.Sprintf("%s holds %d tasks, say which one: %s", e.Agent, len(e.Claims), claim.TasksOf(e.Claims))
}

// OwedError says that what was asked of a claim is noted, and that Notion has yet
// to be told.
type OwedError struct {
	Claim claim.Claim
	Err   error
}

func (e *OwedError) Error() string { return e.Err.Error() }

func (e *OwedError) Unwrap() error { return e.Err }

// InvalidError is input that cannot be used; it says what and why.
type InvalidError struct{ Detail string }

func (e *InvalidError) Error() string { return e.Detail }

// ForbiddenError is a caller that may not use an agent's name.
type ForbiddenError struct {
	Agent  string
	Detail string
}

func (e *ForbiddenError) Error() string { return e.Detail }
