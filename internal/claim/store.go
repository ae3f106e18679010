package claim

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Store is the register that claims are kept in: one page per task, on which
// the last writer of a property wins. Implementations are safe for concurrent
// use. Every error that a request ends in is a *StoreError.
type Store interface {
	// Permit waits until n requests may be sent with nothing waiting between
	// them, and returns a context that carries those permits.
	Permit(ctx context.Context, n int) (context.Context, error)

	// Get reads the page of a task: the page itself, never a query's row.
	Get(ctx context.Context, id task.ID) (Reading, error)

	// Write sets the properties that w names, in one request that is sent at
	// most once, and returns the page as the answer showed it. An answer that
	// shows other values than those sent is still returned without an error.
	Write(ctx context.Context, id task.ID, w Write) (Reading, error)

	// Now is the best estimate of Notion's time, to a second or so. No time that one
	// answer alone has said has moved it.
	Now() time.Time
}

// Reading is a task as one answer showed it.
type Reading struct {
	Task task.Task
	// At is Notion's time at which the answer was made, from its Date header:
	// cut to the second, so never later than the truth.
	At time.Time
	// Unsure says that At is not confirmed, and is the store's estimate: the answer
	// had no Date, or one that is far from the estimate while no other answer has
	// said the same. Nothing that takes a task away may rest on it.
	Unsure bool
}

// judged is the moment by which the lease of the claim that r shows is judged: r.At, or,
// if that is not confirmed, a moment before the end of any lease.
func (r Reading) judged() time.Time {
	if r.Unsure {
		return time.Time{}
	}
	return r.At
}

// errUntimed is the error of what has to wait until Notion's time is known: a lease that
// began at a wrong time would be stale at once, or for ever live.
var errUntimed = Errorf(Unavailable, LandedNo, "Notion's answers do not agree on the time, or have none (see the daemon's log), and nothing was written")

// Write is a change to a task's page. A nil field is left as it is; an empty
// name or token, a zero time or a zero timeout clears the property.
type Write struct {
	Status    *task.Status
	ClaimedBy *string
	ClaimedAt *time.Time
	Token     *string
	// Timeout sets the task's own lease length, kept in whole minutes,
	// rounded up.
	Timeout *time.Duration
	// Note is a line for the page's note, in the place of those of ours that are in it,
	// see Noted. It is for people: nothing is decided by it, and a store that cannot
	// write it without harm to what others wrote, as the page showed it when it was last
	// read, leaves the note as it is.
	Note *string
}

// Landed says whether a write that failed took effect all the same.
type Landed int

// What may have become of a failed write.
const (
	// LandedUnknown: the write may have landed, or may still land.
	LandedUnknown Landed = iota
	// LandedNo: the write was refused or never sent.
	LandedNo
	// LandedYes: the server says that it saved the write.
	LandedYes
)

func (l Landed) String() string {
	return [...]string{"unknown", "no", "yes"}[l]
}

// StoreErrorKind sorts store errors by what can be done about them.
type StoreErrorKind int

// The kinds of store errors.
const (
	// Unavailable: no answer, a 5xx, a rate limit; trying again later may help.
	Unavailable StoreErrorKind = iota
	// NotFound: no such page, not shared with the token, or of another database.
	NotFound
	// Trashed: the page is in the trash and cannot be written.
	Trashed
	// Refused: the request was understood and refused (token, permission,
	// validation); a person has to change something.
	Refused
)

// StoreError is how a Store reports a request that did not succeed.
type StoreError struct {
	Kind StoreErrorKind
	// Landed is meaningful for writes only.
	Landed Landed
	// RetryAfter is how long the server asked to be left alone; zero if it did not say.
	RetryAfter time.Duration
	// Err says what happened in one line, with the status and code if there was an answer.
	Err error
}

func (e *StoreError) Error() string { return e.Err.Error() }

func (e *StoreError) Unwrap() error { return e.Err }

// Errorf makes a StoreError of the given kind.
func Errorf(kind StoreErrorKind, landed Landed, format string, args ...any) *StoreError {
	return &StoreError{Kind: kind, Landed: landed, Err: fmt.Errorf(format, args...)}
}
