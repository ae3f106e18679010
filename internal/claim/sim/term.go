package sim

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

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
