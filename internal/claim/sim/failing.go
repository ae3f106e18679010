package sim

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

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
