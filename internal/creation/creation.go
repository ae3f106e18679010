// Package creation makes tasks, each once.
//
// Each is an intent, see package owed: it has an id, which is kept with the request's idempotency
// key before anything is sent, and which the new page bears in its claim token until somebody
// claims it. A creation in doubt (no answer, a 409, a 5xx, a daemon that was killed) is looked up
// by that id, at once and whenever the request is repeated. It is sent again only for a request
// that is repeated.
//
// Nothing is made behind the caller's back: what has not been made when the caller is
// answered is made when the caller asks again, or never.
//
// A page whose token somebody has changed meanwhile, or of a database without tokens, is
// recognised by its title, its creator and the minute of its creation, if no other
// creation here has that page. There, two tasks of one title that several daemons with one
// connection make within minutes, and of which the answers were lost, may be taken for one.
package creation

import (
	"context"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Plan is a draft in the terms of the database, ready to be sent.
type Plan interface {
	// Create makes the page, in one request, which is sent again only if it is certain that
	// nothing was made. If ctx ends before it is sent, nothing is. The error is a
	// *claim.StoreError.
	Create(ctx context.Context, id string) (claim.Reading, error)
}

// UnknownError says that it is not known whether a task was made. The same request, with
// its key, finds out.
type UnknownError struct{ Err *claim.StoreError }

func (e *UnknownError) Error() string { return e.Err.Error() }

func (e *UnknownError) Unwrap() error { return e.Err }

// Sought is a creation that is looked for.
type Sought struct {
	ID    string
	Title string
	Since time.Time // when it was first sent
}

// Lookup finds what a draft names.
type Lookup interface {
	// Person returns the id of the Notion user whom a name, an e-mail address or an id means.
	Person(ctx context.Context, who string) (id string, err error)
	// Named returns the task that a key, an id or a URL means.
	Named(ctx context.Context, name string) (task.ID, error)
}

// Tasks is the database that tasks are made in.
type Tasks interface {
	// Plan says how a draft is written. The error is a *task.DraftError if it cannot be,
	// or a *claim.StoreError if that cannot be said now, or l's.
	Plan(ctx context.Context, d task.Draft, l Lookup) (Plan, error)
	// Find looks for a creation, with a query that may be behind. What bears the
	// creation's id comes first.
	Find(ctx context.Context, s Sought) ([]claim.Reading, error)
	// Get reads a page.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time
}
