package sim

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

var errKilled = errors.New("the daemon was killed")

// life is one run of a daemon, until it is killed.
type life struct{ over atomic.Bool }

func (l *life) err() error {
	if l.over.Load() {
		return errKilled
	}
	return nil
}

// mortalLedger is the ledger of one run of a daemon. It does nothing after the end of the run.
type mortalLedger struct {
	claim.Ledger
	*life
}

func (l mortalLedger) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	if err := l.err(); err != nil {
		return 0, nil, err
	}
	return l.Ledger.Reserve(ctx, c, now, limit)
}

func (l mortalLedger) Save(ctx context.Context, ch claim.Change) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Ledger.Save(ctx, ch)
}

// mortalStore is the store of one run of a daemon. It sends nothing after the end of the run;
// requests sent before go on.
type mortalStore struct {
	claim.Store
	*life
}

func (s mortalStore) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if err := s.err(); err != nil {
		return claim.Reading{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s mortalStore) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if err := s.err(); err != nil {
		return claim.Reading{}, err
	}
	return s.Store.Write(ctx, id, w)
}
