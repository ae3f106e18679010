package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/clock"
	"dibs/internal/task"
)

// Config is what a Claimer is made of.
type Config struct {
	Store  Store
	Ledger Ledger
	Policy Policy
	// Board is an OpenBoard if nil, and Watcher nobody.
	Board   Board
	Watcher Watcher
	// Clocks, if set, reads the clocks of the machine, in place of those that this
	// process has: by them the write window is measured.
	Clocks func() clock.Instant
	Log    *slog.Logger
}

// Claimer carries out the protocol for the agents of one daemon. Its methods
// are safe for concurrent use; those that concern one task take turns.
type Claimer struct {
	store     Store
	ledger    Ledger
	policy    Policy
	board     Board
	watcher   Watcher
	clocks    func() clock.Instant
	log       *slog.Logger
	book      *book
	gate      *gate
	locks     taskLocks
	underway  sync.Map                  // the ids of the attempts that are being made
	inherited sync.Map                  // see arrives
	latest    atomic.Pointer[time.Time] // see heard

	stopped context.Context
	stop    context.CancelFunc
}

// New returns a Claimer, or an error if the policy cannot keep its promise. If the
// ledger has claims of an earlier run, Recover must be called before anything else.
func New(c Config) (*Claimer, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, err
	}
	k := &Claimer{
		store: c.Store, ledger: c.Ledger, policy: c.Policy,
		board: c.Board, watcher: c.Watcher, clocks: c.Clocks, log: c.Log,
		book: newBook(), gate: newGate(),
	}
	if k.board == nil {
		k.board = OpenBoard{}
	}
	if k.watcher == nil {
		k.watcher = Unwatched{}
	}
	if k.clocks == nil {
		start := time.Now()
		k.clocks = func() clock.Instant { return clock.Local(start) }
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.stopped, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// Close ends waits that outlive their callers. What was under way then is
// taken up by Recover of the next Claimer on the same ledger.
func (c *Claimer) Close() { c.stop() }

// Policy returns the settings the claimer works by.
func (c *Claimer) Policy() Policy { return c.policy }

// ErrStopped is the cause of what Close cuts short.
var ErrStopped = errors.New("the daemon is stopping")

// detached returns a context with the values of ctx that does not end with it:
// what was written to Notion must be seen through even if the caller has gone.
// It ends when the claimer is closed.
func (c *Claimer) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(c.stopped, func() { cancel(ErrStopped) })
	return work, func() { unhook(); cancel(nil) }
}

// landed sorts a failed write by what may have become of it. An error that is
// not the store's own, such as a context that ended, leaves it unknown.
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

// RetryAfter is the pause that an error asks for; zero if it asks for none.
func RetryAfter(err error) time.Duration {
	if se, ok := errors.AsType[*StoreError](err); ok {
		return se.RetryAfter
	}
	return 0
}

// save stores the claim after a step whose effect in Notion cannot be undone.
// The caller may have gone; the record must be kept all the same.
func (c *Claimer) save(ctx context.Context, cl Hold, facts ...Fact) error {
	if err := c.ledger.Save(context.WithoutCancel(ctx), cl, facts...); err != nil {
		if _, away := errors.AsType[*JournalError](err); !away { // else it is not for this claim's sake
			c.log.Error("journal refused a claim", "claim", cl.ID, "task", cl.Task.ID, "state", cl.State, "error", err)
		}
		return fmt.Errorf("claim %s: could not be journalled: %w", cl.ID, err)
	}
	c.keep(cl)
	return nil
}

// keep has the book know what the ledger has stored.
func (c *Claimer) keep(cl Hold) {
	c.book.put(cl)
	c.watcher.Stored(cl)
}

// end closes the claim, with the facts that say why.
func (c *Claimer) end(ctx context.Context, cl Hold, as Ending, detail string, facts ...Fact) (Hold, error) {
	cl.State, cl.Ending, cl.Ended, cl.Detail = Ended, as, c.store.Now(), detail
	cl.Due, cl.Suspect = time.Time{}, time.Time{}
	return cl, c.save(ctx, cl, facts...)
}

// refresh takes over what a page says about a claim that stands: a date or a
// lease that was changed there is what others go by.
func (c *Claimer) refresh(cl *Hold, t task.Task) {
	cl.Task = t
	cl.Timeout = c.policy.LeaseOf(t)
	if cl.Requested > 0 {
		cl.Timeout = min(cl.Timeout, cl.Requested)
	}
	since := cl.ClaimedAt
	if !t.ClaimedAt.IsZero() {
		since = t.ClaimedAt
	}
	if since.Before(cl.ClaimedAt.Truncate(time.Minute)) {
		cl.ClaimedAt = since
	}
	cl.StaleAt = c.policy.StaleAt(since, c.policy.LeaseOf(t))
}

// fresh reports whether the lease that a page shows is the one that cl knows of.
func (c *Claimer) fresh(cl Hold, t task.Task) bool {
	return t.ClaimedAt.IsZero() || c.policy.StaleAt(t.ClaimedAt, c.policy.LeaseOf(t)).Equal(cl.StaleAt)
}
