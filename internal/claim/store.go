package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Store is the register that holds the claims: one page per task, on which the last writer of a
// property wins. Implementations are safe for concurrent use. Every request that fails returns
// a *StoreError.
type Store interface {
	// Permit waits until n requests may be sent back to back, and returns a context that
	// carries those permits.
	Permit(ctx context.Context, n int) (context.Context, error)

	// Get reads the page of a task itself, never a row of a query.
	Get(ctx context.Context, id task.ID) (Reading, error)

	// Write sets the properties that w names, in one request that is sent at most once, and
	// returns the page as the answer showed it. There is no error if the answer shows other
	// values than those sent.
	Write(ctx context.Context, id task.ID, w Write) (Reading, error)

	// Now returns the best estimate of Notion's time, to a second or so. A single answer's time
	// alone never moves it.
	Now() time.Time
}

// Reading is a task as one answer showed it.
type Reading struct {
	Task task.Task
	// At is Notion's time at which the answer was made, from its Date header: cut to the
	// second, so never later than the truth.
	At time.Time
	// Unsure is set if At is not confirmed and only the store's estimate: the answer had no
	// Date, or a Date far from the estimate that no other answer agreed with. Nothing that
	// takes a task away may rest on it.
	Unsure bool
}

// judged returns the time by which to judge the lease that r shows: r.At, or, if that is not
// confirmed, a time before the end of any lease.
func (r Reading) judged() time.Time {
	if r.Unsure {
		return time.Time{}
	}
	return r.At
}

// errUntimed is the error of work that must wait until Notion's time is known: a lease that
// began at a wrong time would be stale at once, or live for ever.
var errUntimed = Errorf(Unavailable, LandedNo, "Notion's answers do not agree on the time, or have none (see the daemon's log), and nothing was written")

// Write is a change to a task's page. A nil field is left as it is. An empty name or token, a
// zero time or a zero timeout clears the property.
type Write struct {
	Status    *task.Status
	ClaimedBy *string
	ClaimedAt *time.Time
	Token     *string
	// Timeout sets the task's own lease length, kept in whole minutes, rounded up. Only Repay
	// does.
	Timeout *time.Duration
	// Note is a line for the page's note, in place of our earlier lines, see Noted. It is for
	// people: nothing is decided by it. A store leaves the note as it is if it cannot write it
	// without harm to what others wrote, as the last reading of the page showed it.
	Note *string
}

// Landed says whether a failed write took effect all the same.
type Landed int

// The fates of a failed write.
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

// StoreErrorKind says what can be done about a store error.
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

// StoreError is the error of a Store's request.
type StoreError struct {
	Kind StoreErrorKind
	// Landed is meaningful for writes only.
	Landed Landed
	// RetryAfter is the pause that the server asked for; zero if it asked for none.
	RetryAfter time.Duration
	// Err says what happened in one line, with the status and code if there was an answer.
	Err error
}

func (e *StoreError) Error() string { return e.Err.Error() }

func (e *StoreError) Unwrap() error { return e.Err }

// Errorf returns a StoreError of the given kind.
func Errorf(kind StoreErrorKind, landed Landed, format string, args ...any) *StoreError {
	return &StoreError{Kind: kind, Landed: landed, Err: fmt.Errorf(format, args...)}
}

// landed says whether a failed write may have landed. An error that is not a *StoreError, such
// as that of an ended context, leaves it unknown.
func landed(err error) Landed {
	if se, ok := errors.AsType[*StoreError](err); ok {
		return se.Landed
	}
	return LandedUnknown
}

// storeKind returns the kind of a store error; anything else counts as Unavailable.
func storeKind(err error) StoreErrorKind {
	if se, ok := errors.AsType[*StoreError](err); ok {
		return se.Kind
	}
	return Unavailable
}

// RetryAfter returns how long a store error asks to wait before a retry; zero if it does not
// say.
func RetryAfter(err error) time.Duration {
	if se, ok := errors.AsType[*StoreError](err); ok {
		return se.RetryAfter
	}
	return 0
}

// JournalError is the error of a Ledger, or of a store beside it, whose file or disk cannot be
// read or written. The request itself is not at fault and may succeed once the cause is mended.
// Nothing of the change was stored, unless Err says that this is not known.
type JournalError struct {
	// RetryAfter is how long to wait before trying again.
	RetryAfter time.Duration
	// Err says what happened and what to do, in one line.
	Err error
}

func (e *JournalError) Error() string { return e.Err.Error() }

func (e *JournalError) Unwrap() error { return e.Err }

// Silence is how long a caller waits for one answer of a Ledger, see Patience.
const Silence = 900 * time.Millisecond

type patienceKey struct{}

// Patience returns a context for a caller that waits no longer than Silence for one answer of a Ledger.
// After that time over is called, in a goroutine of its own, at each such wait; so is the over of an
// outer Patience. The call to the Ledger goes on, since its change may be kept. A nil over turns all of
// them off.
func Patience(ctx context.Context, over func()) context.Context {
	if outer, _ := ctx.Value(patienceKey{}).(func()); outer != nil && over != nil {
		inner := over
		over = func() { inner(); outer() }
	}
	return context.WithValue(ctx, patienceKey{}, over)
}

// Waiting begins a wait for an answer of a Ledger. Its caller calls end after it.
func Waiting(ctx context.Context) (end func()) {
	over, _ := ctx.Value(patienceKey{}).(func())
	if over == nil {
		return func() {}
	}
	timer := time.AfterFunc(Silence, over)
	return func() { timer.Stop() }
}

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
	// write was answered. answer has the page then, if it shows the claim within the window.
	Wrote(took time.Duration, answer Reading, err error)

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

func (Unwatched) Observe(Reading)                     {}
func (Unwatched) Wrote(time.Duration, Reading, error) {}
func (Unwatched) Stored(Hold)                         {}

// fate says what became of a write.
type fate int

const (
	// unknown: it may have landed, or may still land.
	unknown fate = iota
	// notLanded: it did not land and never will.
	notLanded
	// confirmed: its answer showed all of it.
	confirmed
)

// explain words the error of a write that was not seen. It puts what before the error of a
// write of unknown fate.
func (f fate) explain(what string, err error) error {
	if f == notLanded {
		return err
	}
	return fmt.Errorf("%s %w", what, err)
}

// unasked is the error of a visit without permits: nothing was sent to Notion.
type unasked struct{ error }

func (u unasked) Unwrap() error { return u.error }

// Asked reports whether the operation that failed with err had asked Notion for a page. It had
// not if a pause, an outage or a crowd held it back.
func Asked(err error) bool {
	_, not := errors.AsType[unasked](err)
	return !not
}

// errNoEffect is the error of a write whose answer did not show it. Like all errors of writes
// of unknown fate it is a predicate: "the write" goes before it.
var errNoEffect = errors.New("was acknowledged without taking effect")

// errSlow is the error of a write that was not sent because the window was over.
var errSlow = errors.New("the page was read more slowly")

// unsaved is the error of a write that was not sent because the ledger stores nothing: its file
// fails, or another daemon leads by now.
type unsaved struct{ error }

func (u unsaved) Unwrap() error { return u.error }

// notSaved reports whether err is or wraps an unsaved.
func notSaved(err error) bool {
	_, ok := errors.AsType[unsaved](err)
	return ok
}

// notYet is the error of a look at a page, or of an attempt, that must be repeated.
type notYet struct {
	cause error         // nil if there was none
	wait  time.Duration // before the next look
}

func (n notYet) Error() string { return fmt.Sprintf("to be tried again: %v", n.cause) }

// isNotYet reports whether err is a notYet.
func isNotYet(err error) bool {
	_, again := errors.AsType[notYet](err)
	return again
}

// unproven is the error of a renewal that nothing has shown.
func unproven(h Hold) error {
	return Errorf(Unavailable, LandedUnknown, "%q: Notion does not show the renewal; the claim ends when it would have ended without it", h.Task.Title)
}
