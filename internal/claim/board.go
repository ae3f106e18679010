package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Board knows what the task's own page does not show. Its methods may be called concurrently.
type Board interface {
	// Blockers returns the dependencies of a task that are not COMPLETED. It is called within
	// the write window, so it should answer without asking Notion.
	Blockers(context.Context, task.Task) ([]task.ID, error)

	// Knows reports whether Blockers can answer without asking Notion. If not, Blockers is
	// called outside a visit: a holder of permits must not wait for others.
	Knows(task.Task) bool

	// Closed returns why no task may be claimed now, or nil. It is called before an attempt
	// sends anything. Held claims are not affected.
	Closed() error
}

// Watcher is told what a Claimer does. Its methods may be called concurrently.
type Watcher interface {
	// Observe is called with every page that the protocol reads or writes.
	Observe(Reading)

	// Wrote is called after every claim write that may have landed. took is the time from the
	// sending of the read to the answer of the write, or to its failure. err is nil if the
	// write was answered.
	Wrote(took time.Duration, err error)

	// Stored is called with every changed claim, once Find, Claims and On know the change. The
	// task is locked during the call, so Stored must not call other methods of the Claimer.
	Stored(Hold)
}

// OpenBoard is a Board without dependencies, on which all tasks may be claimed.
type OpenBoard struct{}

func (OpenBoard) Blockers(context.Context, task.Task) ([]task.ID, error) { return nil, nil }
func (OpenBoard) Knows(task.Task) bool                                   { return true }
func (OpenBoard) Closed() error                                          { return nil }

// Unwatched is a Watcher that ignores everything.
type Unwatched struct{}

func (Unwatched) Observe(Reading)            {}
func (Unwatched) Wrote(time.Duration, error) {}
func (Unwatched) Stored(Hold)                {}
