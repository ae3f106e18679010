package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// ErrEnded is returned by Ledger for a change to a claim that has ended.
var ErrEnded = errors.New("the claim has ended already")

// Ledger is a claim.Ledger in memory.
type Ledger struct {
	mu       sync.Mutex
	holds    map[claim.ID]claim.Hold
	marks    map[claim.ID]claim.Mark
	reserved map[task.ID]claim.ID
	facts    []claim.Fact
	recorded map[string]bool // the ids of the facts
	tries    map[task.ID][]claim.Try
	failure  error
	fence    int64
	epoch    int
}

var _ claim.Ledger = (*Ledger)(nil)

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		holds: make(map[claim.ID]claim.Hold), marks: make(map[claim.ID]claim.Mark),
		reserved: make(map[task.ID]claim.ID), recorded: make(map[string]bool), tries: make(map[task.ID][]claim.Try),
	}
}

// Break makes every change to the ledger fail with err, until it is called with nil.
func (l *Ledger) Break(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// fails returns why the ledger cannot be changed now, or nil.
func (l *Ledger) fails(ctx context.Context) error {
	if l.failure != nil {
		return l.failure
	}
	if epoch, bound := ctx.Value(epochKey{}).(int); bound && epoch != l.epoch {
		return ErrDeposed
	}
	return ctx.Err()
}

// Reserve implements claim.Ledger.
func (l *Ledger) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails(ctx); err != nil {
		return 0, nil, err
	}
	if _, known := l.holds[c.ID]; known {
		return 0, nil, fmt.Errorf("claim %s is known already", c.ID)
	}
	var refusal *claim.Refusal
	if holder, ok := l.holder(c.Task.ID, now); ok {
		refusal = &claim.Refusal{Holder: &holder}
	} else if limit > 0 && l.reservations(c.Agent, c.Task.ID) >= limit {
		refusal = &claim.Refusal{Limit: true}
	}
	if refusal != nil {
		l.record(refusal.Fact(c, now, limit))
		return 0, refusal, nil
	}
	l.fence++
	c.Fence = l.fence
	l.reserved[c.Task.ID] = c.ID
	l.holds[c.ID] = cloneHold(c)
	return c.Fence, nil, nil
}

// holder returns the claim that has the task, unless it may be taken over.
func (l *Ledger) holder(id task.ID, now time.Time) (claim.Hold, bool) {
	holder, ok := l.holds[l.reserved[id]]
	if !ok || holder.State == claim.Held && !holder.StaleAt.IsZero() && !holder.StaleAt.After(now) {
		return claim.Hold{}, false
	}
	return cloneHold(holder), true
}

// reservations counts the tasks other than except that the agent has.
func (l *Ledger) reservations(agent string, except task.ID) int {
	n := 0
	for id, by := range l.reserved {
		if id != except && l.holds[by].Agent == agent {
			n++
		}
	}
	return n
}

// Save implements claim.Ledger.
func (l *Ledger) Save(ctx context.Context, ch claim.Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails(ctx); err != nil {
		return err
	}
	for _, h := range ch.Holds {
		if l.holds[h.ID].State == claim.Ended {
			return fmt.Errorf("claim %s: %w", h.ID, ErrEnded)
		}
	}
	for _, m := range ch.Marks {
		if l.marks[m.ID].State == claim.Gone {
			return fmt.Errorf("mark %s: %w", m.ID, ErrEnded)
		}
	}
	for _, m := range ch.Marks {
		m.Task = clone(m.Task)
		l.marks[m.ID] = m
	}
	for _, e := range ch.Facts {
		if !l.recorded[e.ID] {
			l.record(e)
		}
	}
	for _, h := range ch.Used {
		if known, ok := l.holds[h.ID]; ok && known.State == claim.Ended {
			known.Used = h.Used
			l.holds[h.ID] = known
		}
	}
	for _, h := range ch.Holds {
		l.holds[h.ID] = cloneHold(h)
		id := h.Task.ID
		switch {
		case h.State == claim.Ended:
			if l.reserved[id] == h.ID {
				delete(l.reserved, id)
			}
			l.contested(h)
		case l.reserved[id] == "":
			// The claim was taken over while it was stale, and the other has given up since.
			l.reserved[id] = h.ID
		}
	}
	return nil
}

// contested sums up the denials against an ended claim.
func (l *Ledger) contested(c claim.Hold) {
	var names []string
	for i := range l.facts {
		if e := &l.facts[i]; e.Against == c.ID {
			names = append(names, e.Agent)
		}
	}
	if count := len(names); count > 0 {
		slices.Sort(names)
		l.record(claim.Contested(c, c.Ended, count, slices.Compact(names)))
	}
}

// record stores a fact and the try that it reports.
func (l *Ledger) record(e claim.Fact) {
	l.facts, l.recorded[e.ID] = append(l.facts, e), true
	switch e.Tried {
	case claim.TriedAgain:
		l.tries[e.Task] = append(l.tries[e.Task], e.Try())
	case claim.TriedOver:
		delete(l.tries, e.Task)
	}
}

// Tries implements claim.Ledger.
func (l *Ledger) Tries(_ context.Context, id task.ID) ([]claim.Try, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tries[id]), nil
}

// Hold implements claim.Ledger.
func (l *Ledger) Hold(_ context.Context, id claim.ID) (claim.Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holds[id]
	if !ok {
		return claim.Hold{}, claim.ErrUnknownClaim
	}
	return cloneHold(h), nil
}

// Mark implements claim.Ledger.
func (l *Ledger) Mark(_ context.Context, id claim.ID) (claim.Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.marks[id]
	if !ok {
		return claim.Mark{}, claim.ErrUnknownClaim
	}
	m.Task = clone(m.Task)
	return m, nil
}

// Live implements claim.Ledger.
func (l *Ledger) Live(context.Context) (holds []claim.Hold, marks []claim.Mark, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if h.State != claim.Ended {
			holds = append(holds, cloneHold(h))
		}
	}
	for _, m := range l.marks {
		if m.State != claim.Gone {
			m.Task = clone(m.Task)
			marks = append(marks, m)
		}
	}
	slices.SortFunc(holds, func(a, b claim.Hold) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(marks, func(a, b claim.Mark) int { return cmp.Compare(a.ID, b.ID) })
	return holds, marks, nil
}

// Events returns the recorded facts, in order.
func (l *Ledger) Events() []claim.Fact {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.facts)
}

func cloneHold(c claim.Hold) claim.Hold {
	c.Task = clone(c.Task)
	if c.Finish != nil {
		c.Finish = new(*c.Finish)
	}
	return c
}

// ErrDeposed is the error of every change that a former leader tries to make to a ledger.
var ErrDeposed = &claim.JournalError{Err: errors.New("another daemon leads now, and only that one changes the journal")}

// Term is a ledger in the hands of one epoch's leader. Every transaction asserts the epoch:
// once there is a later one, it fails with ErrDeposed and changes nothing. Reads still work.
type Term struct {
	*Ledger
	epoch int
}

type epochKey struct{}

// Lead begins a new epoch and deposes the former leader.
func (l *Ledger) Lead() *Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	return &Term{l, l.epoch}
}

// Deposed reports whether the epoch is over.
func (t *Term) Deposed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch != t.Ledger.epoch
}

// bound returns a context whose transactions assert the epoch.
func (t *Term) bound(ctx context.Context) context.Context {
	return context.WithValue(ctx, epochKey{}, t.epoch)
}

// Reserve implements claim.Ledger.
func (t *Term) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	return t.Ledger.Reserve(t.bound(ctx), c, now, limit)
}

// Save implements claim.Ledger.
func (t *Term) Save(ctx context.Context, ch claim.Change) error {
	return t.Ledger.Save(t.bound(ctx), ch)
}

// ErrNotSaved is the error of a ledger that fails to save.
var ErrNotSaved = errors.New("the disk is full")

// failingLedger is a ledger that fails to save now and then.
type failingLedger struct {
	claim.Ledger
	fails func() bool
}

// Failing makes changes to a ledger fail, storing nothing, whenever fails returns true.
func Failing(fails func() bool) func(claim.Ledger) claim.Ledger {
	return func(l claim.Ledger) claim.Ledger { return failingLedger{l, fails} }
}

func (l failingLedger) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	if l.fails() {
		return 0, nil, ErrNotSaved
	}
	return l.Ledger.Reserve(ctx, c, now, limit)
}

func (l failingLedger) Save(ctx context.Context, ch claim.Change) error {
	if l.fails() {
		return ErrNotSaved
	}
	return l.Ledger.Save(ctx, ch)
}
