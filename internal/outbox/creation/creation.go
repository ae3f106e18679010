// Package creation creates tasks, each once.
//
// Each is an intent, see package outbox. Its id is saved with the request's idempotency key before
// anything is sent, and the new page has it as its claim token until somebody claims the task. A
// creation in doubt (no answer, a 409, a 5xx, a daemon that was killed) is looked up by that id, at
// once and whenever the request is repeated. It is sent again only when the request is repeated.
//
// Nothing is created behind the caller's back. A task that does not exist when the caller gets its
// answer is created when the caller asks again, or never.
//
// If somebody has changed the page's token, the page is recognised by its title, its creator and the minute of its creation, unless it belongs to another creation
// here. This can confuse two tasks: if several daemons with one connection create tasks of the same
// title within minutes, and the answers are lost, they may be taken for one.
package creation

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Plan is a draft in the terms of the database, ready to be sent.
type Plan interface {
	// Create creates the page in one request. It repeats the request only if it is certain
	// that nothing was created. If ctx ends first, nothing is sent. The error is a
	// *claim.StoreError.
	Create(ctx context.Context, id string) (claim.Reading, error)
}

// UnknownError says that it is not known whether a task was created. The caller finds out by
// repeating the request with its key.
type UnknownError struct{ Err *claim.StoreError }

func (e *UnknownError) Error() string { return e.Err.Error() }

func (e *UnknownError) Unwrap() error { return e.Err }

// Sought is a creation to look up.
type Sought struct {
	ID    string
	Title string
	Since time.Time // when it was first sent
}

// Lookup resolves the names in a draft.
type Lookup interface {
	// Person returns the id of the Notion user with that name, e-mail address or id.
	Person(ctx context.Context, who string) (id string, err error)
	// Named returns the task with that key, id or URL.
	Named(ctx context.Context, name string) (task.ID, error)
}

// Tasks is the database in which tasks are created.
type Tasks interface {
	// Plan prepares a draft. The error is a *task.DraftError if the draft cannot be written, a
	// *claim.StoreError if that cannot be found out now, or an error of l.
	Plan(ctx context.Context, d task.Draft, l Lookup) (Plan, error)
	// Find looks up a creation, with a query that may lag behind. A page with the creation's
	// id comes first.
	Find(ctx context.Context, s Sought) ([]claim.Reading, error)
	// Get reads a page.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time
}
