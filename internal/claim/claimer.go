package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	return c.untilClosed(context.WithoutCancel(ctx))
}

// untilClosed returns a context that ends with ctx, and when the claimer is closed.
func (c *Claimer) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(ctx)
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

// Find returns the claim of that id in any state, or ErrUnknownClaim. It asks the ledger only
// for claims that have ended.
func (c *Claimer) Find(ctx context.Context, id ID) (Hold, error) {
	if cl, ok := c.book.get(id); ok {
		return cl, nil
	}
	return c.ledger.Hold(ctx, id)
}

// Claims returns the agent's claims in state Held or Finishing, oldest first; everybody's if
// agent is empty.
func (c *Claimer) Claims(agent string) []Hold { return c.book.of(agent) }

// Holding returns the number of held claims.
func (c *Claimer) Holding() int { return c.book.held() }

// Finishing returns the claims whose agents are done while Notion has yet to be told, in the
// order in which the agents said so.
func (c *Claimer) Finishing() []Hold { return c.book.until(c.book.finishes, forever) }

// On returns the claim that keeps a task from the other agents of this daemon; false if there
// is none. A held claim may have gone stale, see Lease.StaleAt.
func (c *Claimer) On(id task.ID) (Hold, bool) {
	var last Hold
	found := false
	for _, cl := range c.book.on(id) {
		last, found = cl, true // the last one took the task over
	}
	return last, found
}

// Mark returns the live mark of that id; false if there is none. The mark of an abandoned
// attempt has the id of its claim.
func (c *Claimer) Mark(id ID) (Mark, bool) { return c.book.mark(id) }

// forever is later than anything.
var forever = time.Unix(1<<40, 0)

// Between calls f with those of ids that no call of c is working on, and keeps all others off
// them until f returns. f must not call c.
func (c *Claimer) Between(ids []task.ID, f func(idle []task.ID) error) error {
	idle := make([]task.ID, 0, len(ids))
	for _, id := range ids {
		if unlock, ok := c.locks.Try(id); ok {
			defer unlock()
			idle = append(idle, id)
		}
	}
	return f(idle)
}

// hear records the time of a reading, if it is confirmed.
func (c *Claimer) hear(r Reading) {
	for !r.Unsure {
		last := c.latest.Load()
		if last != nil && !last.Before(r.At) || c.latest.CompareAndSwap(last, &r.At) {
			return
		}
	}
}

// heard returns the latest confirmed time of a reading; zero if there is none.
func (c *Claimer) heard() time.Time {
	if at := c.latest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Sighted is called with a claim token that the mirror saw on a task. If the token belongs to a
// mark in state Unseen, its write has arrived after all: the mark becomes Abandoned and due at
// once, and Sighted returns true.
func (c *Claimer) Sighted(ctx context.Context, token string) (bool, error) {
	m, ok := c.unseen(token)
	if !ok {
		return false, nil
	}
	unlock, err := c.locks.Lock(ctx, m.Task.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	m.Task.Token = token
	return c.sighted(ctx, m.Task)
}

// sighted is Sighted for a locked task, as a page shows it.
func (c *Claimer) sighted(ctx context.Context, t task.Task) (bool, error) {
	m, ok := c.unseen(t.Token)
	if !ok || m.Task.ID != t.ID {
		return false, nil
	}
	m.State, m.Due = Abandoned, c.store.Now()
	return true, c.saveMark(ctx, m)
}

// unseen returns the mark of that token, if it is in state Unseen.
func (c *Claimer) unseen(token string) (Mark, bool) {
	tok := ParseToken(token)
	if tok.Done {
		return Mark{}, false
	}
	m, ok := c.book.mark(tok.ID)
	return m, ok && m.State == Unseen
}

// late returns the mark of the claim that t shows, if that claim was abandoned here and is not
// void yet.
func (c *Claimer) late(t task.Task) (Mark, bool) {
	m, ok := c.book.mark(ParseToken(t.Token).ID)
	return m, ok && (m.State == Abandoned || m.State == Unseen) && m.Task.ID == t.ID
}

// held returns the claim on t if an agent here has it; otherwise a zero Hold.
func (c *Claimer) held(t task.Task) Hold {
	for _, h := range c.book.on(t.ID) {
		if (h.State == Held || h.State == Finishing) && ParseToken(t.Token).ID == h.ID {
			return h
		}
	}
	return Hold{}
}

// known returns the ledger's record of an id: a mark, or a claim in the form of the mark that
// it would leave, without a state. over says whether the record has ended. The error is
// ErrUnknownClaim if there is no record.
func (c *Claimer) known(ctx context.Context, id ID) (m Mark, over bool, err error) {
	if m, live := c.book.mark(id); live {
		return m, false, nil
	}
	h, err := c.Find(ctx, id)
	if err == nil {
		m := h.mark("", time.Time{}, "")
		m.Assigned = h.Assigned && h.Started.IsZero() // a granted claim uses the assignment up
		return m, h.State == Ended, nil
	}
	if errors.Is(err, ErrUnknownClaim) {
		m, err = c.ledger.Mark(ctx, id)
	}
	return m, err == nil, err
}

// remains returns the mark that takes off t a claim shown without right: one of this ledger
// that is over, or one that was made on another page; the mark's task is that of the claim. ok
// is false if there is none, if the lease does not matter, or if the page shows no name.
func (c *Claimer) remains(ctx context.Context, t task.Task) (m Mark, ok bool, err error) {
	tok := ParseToken(t.Token)
	switch {
	case tok.ID == "", t.Trashed, t.ClaimedBy == "", t.ClaimedAt.IsZero() && !undated(t),
		t.Status != task.Open && t.Status != task.InProgress, t.Status == task.Open && tok.Done:
		return Mark{}, false, nil
	}
	of, over, err := c.known(ctx, tok.ID)
	if errors.Is(err, ErrUnknownClaim) {
		return Mark{}, false, nil
	}
	now := c.store.Now()
	return Mark{
		ID: NewID(now), Why: Leftover, Of: tok.ID, Agent: of.Agent, Task: of.Task, Made: now,
		Assigned: of.Assigned,
		Reason:   "the card showed this claim although it was over",
	}, err == nil && (over || of.Task.ID != t.ID), err
}

// seeStale adds what a sweep must know about a page.
func (c *Claimer) seeStale(ctx context.Context, s *Sight) (err error) {
	t, m := s.Task, &s.Mark
	if t.Trashed || t.Status != task.InProgress || !c.policy.Stale(t, s.judged()) {
		return nil
	}
	s.Local = c.held(t)
	m.Agent = t.ClaimedBy
	reason := "its lease ran out at " + c.policy.LeaseEnd(t).UTC().Format("15:04 UTC on Jan 2")
	if m.Reason != "" {
		reason += "; " + m.Reason
	}
	m.Reason = reason
	m.History, err = c.exhausted(ctx, t.ID, c.staleTry(t))
	return err
}

// seeCopy finds out whether a page marked by a sweep is a copy that shows the claim of another
// page.
func (c *Claimer) seeCopy(ctx context.Context, s *Sight) error {
	id := s.Local.ID
	if id == "" {
		id = ParseToken(s.Mark.Task.Token).ID
	}
	of, _, err := c.known(ctx, id)
	if errors.Is(err, ErrUnknownClaim) {
		return nil
	}
	s.Copied = err == nil && of.Task.ID != s.Mark.Task.ID
	return err
}

// seeOpening adds what is known here of a task whose status is to be set.
func (c *Claimer) seeOpening(ctx context.Context, s *Sight) error {
	for _, h := range c.book.on(s.Task.ID) {
		if h.State == Held || h.State == Finishing {
			s.Local = h
			break
		}
	}
	tok := ParseToken(s.Task.Token)
	if s.Last = tok.By; tok.ID != "" && tok.By == "" {
		m, over, err := c.known(ctx, tok.ID)
		if err != nil && !errors.Is(err, ErrUnknownClaim) {
			return err
		}
		s.Last, s.Over = m.Agent, err == nil && (over || m.State != "")
	}
	if s.Last == "" && dated(s.Task) { // of a claim that is stale
		s.Last = s.Task.ClaimedBy
	}
	if !s.Ask.opens() || s.Task.Status != task.Open {
		return nil
	}
	tries, err := c.ledger.Tries(ctx, s.Task.ID)
	if err == nil && len(tries) > 0 {
		s.Tried = historyOf(tries)
	}
	return err
}

// staleTry returns the try that ended when the claim on t went stale.
func (c *Claimer) staleTry(t task.Task) Try {
	return Try{Agent: t.ClaimedBy, At: c.policy.LeaseEnd(t)}
}

// exhausted returns the history of a task if last uses up its tries (Policy.MaxAttempts): then
// it is a person's turn. Otherwise it returns an empty history.
func (c *Claimer) exhausted(ctx context.Context, id task.ID, last Try) (history string, err error) {
	if c.policy.MaxAttempts == 0 {
		return "", nil
	}
	tries, err := c.ledger.Tries(context.WithoutCancel(ctx), id)
	if err != nil {
		return "", fmt.Errorf("task %s: how often it was tried could not be read: %w", id, err)
	}
	if tries = append(tries, last); len(tries) < c.policy.MaxAttempts {
		return "", nil
	}
	return historyOf(tries), nil
}

// Some of what people do to a card the daemon answers with a write of its own: it takes off what
// is left of a claim, sweeps a stale one. An automation in Notion may
// answer that in turn, and so on for ever. So a card that was answered mostAnswers times within
// answersWithin is left alone for restFor. What safety needs goes on: claims, renewals, finishes,
// the withdrawal of attempts, claims that are written back, and the end of a claim, of which only
// the remains stay on the card. What somebody asks for by `dibs reopen` is no answer.
const (
	mostAnswers   = 3
	answersWithin = 10 * time.Minute
	restFor       = time.Hour
)

// unrest counts the answers to cards. It is in memory only: a restart begins anew. It goes by
// this machine's clock, and is safe for concurrent use.
type unrest struct {
	mu    sync.Mutex
	cards map[task.ID]answered
}

// answered is a card with the times of its last answers, oldest first.
type answered struct {
	task  task.Task
	times []time.Time
}

// until returns when a card's rest ends; zero if it has none.
func (a answered) until() time.Time {
	n := len(a.times)
	if n < mostAnswers || a.times[n-1].Sub(a.times[0]) > answersWithin {
		return time.Time{}
	}
	return a.times[n-1].Add(restFor)
}

// answer counts an answer to t. It reports whether t is left alone from now on.
func (u *unrest) answer(t task.Task) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(u.cards, func(_ task.ID, a answered) bool { return now.Sub(a.times[len(a.times)-1]) > restFor })
	if u.cards == nil {
		u.cards = make(map[task.ID]answered)
	}
	times := append(slices.Clone(u.cards[t.ID].times), now)
	a := answered{t, times[max(0, len(times)-mostAnswers):]}
	u.cards[t.ID] = a
	return !a.until().IsZero()
}

// LeftAlone returns for how long the daemon still leaves a card alone, because something changes
// it back whenever it is tidied; 0 if it does not.
func (u *unrest) LeftAlone(id task.ID) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(0, time.Until(u.cards[id].until()))
}

// AllLeftAlone returns the cards that are left alone, by their ids.
func (u *unrest) AllLeftAlone() []task.Task {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []task.Task
	for _, id := range slices.Sorted(maps.Keys(u.cards)) {
		if a := u.cards[id]; time.Now().Before(a.until()) {
			out = append(out, a.task)
		}
	}
	return out
}
