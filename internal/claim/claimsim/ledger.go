package claimsim

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
	claims   map[claim.ID]claim.Hold
	live     map[claim.ID]bool // those that have not ended
	reserved map[task.ID]claim.ID
	facts    []claim.Fact
	tries    map[task.ID][]claim.Try
	failure  error
	fence    int64
	epoch    int
}

var _ claim.Ledger = (*Ledger)(nil)

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		claims: make(map[claim.ID]claim.Hold), live: make(map[claim.ID]bool), reserved: make(map[task.ID]claim.ID),
		tries: make(map[task.ID][]claim.Try),
	}
}

// Break makes whatever changes the ledger fail with err, until it is called
// with nil.
func (l *Ledger) Break(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// fails returns why nothing can be changed now, if so.
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
	if _, known := l.claims[c.ID]; known {
		return 0, nil, fmt.Errorf("claim %s is known already", c.ID)
	}
	var refusal *claim.Refusal
	if holder, ok := l.holder(c.Task.ID, now); ok {
		refusal = &claim.Refusal{Holder: &holder}
	} else if limit > 0 && l.reservations(c.Agent, c.Task.ID) >= limit {
		refusal = &claim.Refusal{Limit: true}
	}
	if refusal != nil {
		l.facts = append(l.facts, refusal.Fact(c, now, limit))
		return 0, refusal, nil
	}
	l.fence++
	c.Fence = l.fence
	l.reserved[c.Task.ID] = c.ID
	l.claims[c.ID], l.live[c.ID] = cloneClaim(c), true
	return c.Fence, nil, nil
}

// holder returns the claim that has the task, unless that may be taken over.
func (l *Ledger) holder(id task.ID, now time.Time) (claim.Hold, bool) {
	holder, ok := l.claims[l.reserved[id]]
	if !ok || holder.State == claim.Held && !holder.StaleAt.After(now) {
		return claim.Hold{}, false
	}
	return cloneClaim(holder), true
}

// reservations counts the tasks other than except that the agent has.
func (l *Ledger) reservations(agent string, except task.ID) int {
	n := 0
	for id, by := range l.reserved {
		if id != except && l.claims[by].Agent == agent {
			n++
		}
	}
	return n
}

// Save implements claim.Ledger.
func (l *Ledger) Save(ctx context.Context, c claim.Hold, facts ...claim.Fact) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails(ctx); err != nil {
		return err
	}
	if l.claims[c.ID].State == claim.Ended {
		return fmt.Errorf("claim %s: %w", c.ID, ErrEnded)
	}
	l.claims[c.ID], l.live[c.ID] = cloneClaim(c), true
	l.record(facts...)

	id := c.Task.ID
	switch {
	case !c.State.Reserves():
		if l.reserved[id] == c.ID {
			delete(l.reserved, id)
		}
	case l.reserved[id] == "":
		// Taken over from it while it was stale, and given up again since.
		l.reserved[id] = c.ID
	}
	if c.State == claim.Ended {
		delete(l.live, c.ID)
		l.contested(c)
	}
	return nil
}

// contested sums up the denials against a claim that has ended.
func (l *Ledger) contested(c claim.Hold) {
	var names []string
	for _, e := range l.facts {
		if e.Against == c.ID {
			names = append(names, e.Agent)
		}
	}
	if count := len(names); count > 0 {
		slices.Sort(names)
		l.facts = append(l.facts, claim.Contested(c, c.Ended, count, slices.Compact(names)))
	}
}

// Record implements claim.Ledger.
func (l *Ledger) Record(ctx context.Context, facts ...claim.Fact) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails(ctx); err != nil {
		return err
	}
	for _, e := range facts {
		if !slices.ContainsFunc(l.facts, func(known claim.Fact) bool { return known.ID == e.ID }) {
			l.record(e)
		}
	}
	return nil
}

// record keeps facts, and the tries that they tell of.
func (l *Ledger) record(facts ...claim.Fact) {
	for _, e := range facts {
		l.facts = append(l.facts, e)
		switch e.Tried {
		case claim.TriedAgain:
			l.tries[e.Task] = append(l.tries[e.Task], e.Try())
		case claim.TriedOver:
			delete(l.tries, e.Task)
		}
	}
}

// Tries implements claim.Ledger.
func (l *Ledger) Tries(_ context.Context, id task.ID) ([]claim.Try, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tries[id]), nil
}

// Claim implements claim.Ledger.
func (l *Ledger) Claim(_ context.Context, id claim.ID) (claim.Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.claims[id]
	if !ok {
		return claim.Hold{}, claim.ErrUnknownClaim
	}
	return cloneClaim(c), nil
}

// Live implements claim.Ledger.
func (l *Ledger) Live(context.Context) ([]claim.Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var live []claim.Hold
	for id := range l.live {
		live = append(live, cloneClaim(l.claims[id]))
	}
	slices.SortFunc(live, func(a, b claim.Hold) int { return cmp.Compare(a.ID, b.ID) })
	return live, nil
}

// Events returns what was recorded, in order.
func (l *Ledger) Events() []claim.Fact {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.facts)
}

func cloneClaim(c claim.Hold) claim.Hold {
	c.Task = clone(c.Task)
	if c.Finish != nil {
		c.Finish = new(*c.Finish)
	}
	return c
}
