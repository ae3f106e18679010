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
	// Cases is the page of cases; nil for Protocol's.
	Cases Cases
	Log   *slog.Logger
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
	cases     Cases
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
		board: c.Board, watcher: c.Watcher, clocks: c.Clocks, cases: c.Cases, log: c.Log,
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
	if k.cases == nil {
		k.cases = Protocol()
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

// commit stores a change after a step whose effect in Notion cannot be undone. The caller
// may have gone; the record must be kept all the same.
func (c *Claimer) commit(ctx context.Context, ch Change) error {
	if err := c.ledger.Save(context.WithoutCancel(ctx), ch); err != nil {
		id, on := ch.subject()
		if _, away := errors.AsType[*JournalError](err); !away { // else it is not for this claim's sake
			c.log.Error("journal refused a claim", "claim", id, "task", on, "error", err)
		}
		return fmt.Errorf("claim %s: could not be journalled: %w", id, err)
	}
	c.keep(ch)
	return nil
}

// subject is the claim that c is about first, and its task.
func (c Change) subject() (id ID, on task.ID) {
	switch {
	case len(c.Holds) > 0:
		return c.Holds[0].ID, c.Holds[0].Task.ID
	case len(c.Marks) > 0:
		return c.Marks[0].ID, c.Marks[0].Task.ID
	case len(c.Facts) > 0:
		return c.Facts[0].Claim, c.Facts[0].Task
	}
	return "", ""
}

// keep has the book know what the ledger has stored.
func (c *Claimer) keep(ch Change) {
	c.book.put(ch)
	for _, h := range ch.Holds {
		c.watcher.Stored(h)
	}
}

// save stores a hold, with facts about it.
func (c *Claimer) save(ctx context.Context, h Hold, facts ...Fact) error {
	return c.commit(ctx, Change{Holds: []Hold{h}, Facts: facts})
}

// saveMark stores a mark, with facts about it.
func (c *Claimer) saveMark(ctx context.Context, m Mark, facts ...Fact) error {
	return c.commit(ctx, Change{Marks: []Mark{m}, Facts: facts})
}

// end closes the claim, with the facts that say why.
func (c *Claimer) end(ctx context.Context, h Hold, as Ending, detail string, facts ...Fact) (Hold, error) {
	h = h.ended(as, c.store.Now(), detail)
	return h, c.save(ctx, h, facts...)
}

// ended is h at its end.
func (h Hold) ended(as Ending, at time.Time, detail string) Hold {
	h.State, h.Ending, h.Ended, h.Detail = Ended, as, at, detail
	h.Due, h.Suspect = time.Time{}, time.Time{}
	return h
}
