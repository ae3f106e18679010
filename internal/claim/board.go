package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Board is what is known of a board beside the page that a claim is about. Its methods may be
// called at the same time.
type Board interface {
	// Blockers returns the dependencies of a task that are not COMPLETED. It is
	// asked within the write window, so it should know without asking Notion.
	Blockers(context.Context, task.Task) ([]task.ID, error)

	// Knows reports whether Blockers can answer without asking Notion. If not,
	// it is asked outside a visit: who holds permits must not wait for others.
	Knows(task.Task) bool

	// Closed returns why no task may be claimed now, or nil. It is asked before
	// each attempt sends anything. Claims that are held are not affected.
	Closed() error
}

// Watcher is told what a Claimer does. Its methods may be called at the same time.
type Watcher interface {
	// Observe is told of every page that the protocol reads or writes.
	Observe(Reading)

	// Wrote is called after every claim write that may have landed. took is
	// the time from the sending of the read to the answer of the write, or to its
	// failure; err is nil if it was answered.
	Wrote(took time.Duration, err error)

	// Stored is told of every change of a claim, once Find, Claims and On
	// know of it. It is called with the task locked and must not call the Claimer's
	// other methods.
	Stored(Hold)
}

// OpenBoard is a Board on which no task depends on another, and all may be claimed.
type OpenBoard struct{}

func (OpenBoard) Blockers(context.Context, task.Task) ([]task.ID, error) { return nil, nil }
func (OpenBoard) Knows(task.Task) bool                                   { return true }
func (OpenBoard) Closed() error                                          { return nil }

// Unwatched is a Watcher to whom nothing matters.
type Unwatched struct{}

func (Unwatched) Observe(Reading)            {}
func (Unwatched) Wrote(time.Duration, error) {}
func (Unwatched) Stored(Hold)                {}
