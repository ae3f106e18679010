package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/kit/keylock"
	"dibs/internal/task"
)

// Config configures a Claimer.
type Config struct {
	Store  Store
	Ledger Ledger
	Policy Policy
	// Board defaults to OpenBoard, and Watcher to Unwatched.
	Board   Board
	Watcher Watcher
	// Clocks reads the clocks that measure the write window; nil means this machine's.
	Clocks func() clock.Instant
	// Editor returns the name of a Notion user, by its id; empty if it is not known. It does not
	// ask Notion. Nil means that no user is known.
	Editor func(id string) string
	// Origin is the ledger's own; if it is empty, ids have none.
	Origin Origin
	// Beside reports whether another claimer is on the board although Policy.Exclusive is set: then
	// claims are settled all the same. Nil means that there never is.
	Beside func() bool
	// Kept reports whether something keeps a claim alive, or may. Such a claim is not given back for
	// its agent's silence. Nil means that nothing keeps any.
	Kept func(ID) bool
	// Cases is the page of cases; nil means Protocol().
	Cases Cases
	Log   *slog.Logger
}

// Claimer carries out the protocol for the agents of one daemon. Its methods
// are safe for concurrent use; those that concern one task take turns.
type Claimer struct {
	store    Store
	ledger   Ledger
	policy   Policy
	board    Board
	watcher  Watcher
	clocks   func() clock.Instant
	editor   func(id string) string
	cases    Cases
	origin   Origin
	beside   func() bool
	kept     func(ID) bool
	log      *slog.Logger
	book     *book
	gate     *gate
	locks    keylock.Locks[task.ID]    // so that what is done to one task never interleaves
	underway sync.Map                  // the ids of running attempts
	flights  sync.Map                  // see arrives
	latest   atomic.Pointer[time.Time] // see heard
	unrest                             // the cards that something keeps changing back

	stopped context.Context
	stop    context.CancelFunc
}

// New returns a Claimer. It returns an error if the policy cannot keep the protocol's promise.
// If the ledger has claims of an earlier run, call Recover before anything else.
func New(c Config) (*Claimer, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, err
	}
	k := &Claimer{
		store: c.Store, ledger: c.Ledger, policy: c.Policy,
		board: c.Board, watcher: c.Watcher, clocks: c.Clocks, editor: c.Editor, cases: c.Cases, log: c.Log,
		origin: c.Origin, beside: c.Beside, kept: c.Kept,
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
	if k.editor == nil {
		k.editor = func(string) string { return "" }
	}
	if k.beside == nil {
		k.beside = func() bool { return false }
	}
	if k.kept == nil {
		k.kept = func(ID) bool { return false }
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

// Close ends the waits that outlive their callers. Recover of the next Claimer on the same
// ledger takes up the unfinished work.
func (c *Claimer) Close() { c.stop() }

// settle returns the settle wait. Beside another claimer it is longer than the write window.
func (c *Claimer) settle() time.Duration {
	if c.beside() {
		return max(c.policy.Settle, c.policy.WriteWindow+besideMargin)
	}
	return c.policy.Settle
}

// besideMargin is by how much a settle wait that was not configured is longer than the window.
const besideMargin = 100 * time.Millisecond

// unsettled reports whether the answer to the claim write verifies the claim: there is nobody
// who could overwrite it.
func (c *Claimer) unsettled() bool { return c.policy.Exclusive && c.settle() == 0 }

// NewID returns the id of a new claim.
func (c *Claimer) NewID() ID { return c.origin.NewID(c.store.Now()) }

// Policy returns the settings the claimer works by.
func (c *Claimer) Policy() Policy { return c.policy }

// ErrStopped is the cause of waits that Close cut short.
var ErrStopped = errors.New("the daemon is stopping")

// detached returns a context with the values of ctx that does not end with it: a write to
// Notion must be seen through even if the caller has gone. The context ends when the claimer is
// closed.
func (c *Claimer) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(c.stopped, func() { cancel(ErrStopped) })
	return work, func() { unhook(); cancel(nil) }
}

// commit stores a change after a step whose effect in Notion cannot be undone. It ignores the
// end of ctx: the record must be kept even if the caller has gone.
func (c *Claimer) commit(ctx context.Context, ch Change) error {
	if err := c.ledger.Save(context.WithoutCancel(ctx), ch); err != nil {
		id, on := ch.subject()
		if _, away := errors.AsType[*JournalError](err); !away { // else the journal is at fault, not this change
			c.log.Error("journal refused a claim", AttrClaim, id, AttrTask, on, AttrError, err)
		}
		return fmt.Errorf("claim %s: could not be journalled: %w", id, err)
	}
	c.keep(ch)
	return nil
}

// keep puts a stored change into the book and tells the watcher.
func (c *Claimer) keep(ch Change) {
	c.book.put(ch)
	for _, h := range ch.Holds {
		if h.State == Ended {
			c.flights.Delete(h.ID)
		}
		c.watcher.Stored(h)
	}
	for _, m := range ch.Marks {
		if m.State == Gone {
			c.flights.Delete(m.ID)
		}
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

// end ends the claim and stores it, with the facts that say why.
func (c *Claimer) end(ctx context.Context, h Hold, as Ending, detail string, facts ...Fact) (Hold, error) {
	h = h.ended(as, c.store.Now(), detail)
	return h, c.save(ctx, h, facts...)
}

// fly records that a write of unknown fate was sent under a finishing hold or a clearing mark, and
// frees its task. It goes by the monotonic clock: a standstill only makes the wait longer.
func (c *Claimer) fly(id ID) { c.flights.Store(id, time.Now().Add(arrival)) }

// arrives returns how long such a write of these holds or marks may still be on its way.
func (c *Claimer) arrives(ids ...ID) (left time.Duration) {
	for _, id := range ids {
		if until, flies := c.flights.Load(id); flies {
			left = max(left, time.Until(until.(time.Time)))
		}
	}
	return left
}

// landing returns for how long a write that frees t, and does not show on it, may still be on its
// way, and the mark under which it was sent. A hold under which one was sent has the task reserved.
func (c *Claimer) landing(t task.Task) (under Mark, left time.Duration) {
	for _, m := range c.book.marksOn(t.ID) {
		if l := c.arrives(m.ID); l > left && !m.off(t) {
			under, left = m, l
		}
	}
	return under, left
}
