package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"dibs/internal/journal"
)

// Term is the time for which a member leads.
type Term struct {
	member *Member
	epoch  int64
	once   sync.Once
	over   chan struct{}
}

// Epoch counts the terms of all members.
func (t *Term) Epoch() int64 { return t.epoch }

// Open opens the journal of the term, which is over with it.
func (t *Term) Open(ctx context.Context) (*journal.Journal, error) {
	j, err := t.member.database.Open(ctx, t.epoch)
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-j.Over():
			t.member.log.Error("this daemon leads no more: the journal takes nothing from it", "epoch", t.epoch)
			t.end()
		case <-t.over:
		}
	}()
	return j, nil
}

// Over is closed once the member leads no more.
func (t *Term) Over() <-chan struct{} { return t.over }

func (t *Term) end() { t.once.Do(func() { close(t.over) }) }

// Keep renews the term until ctx ends or the term is over. While the database is away nobody
// can take the lead, and nothing can be saved: whether the term is over is known when it is back.
func (t *Term) Keep(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.over:
			return
		case <-time.After(beat):
		}
		err := t.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, journal.ErrDeposed):
			t.member.log.Error("this daemon leads no more: its term is over", "epoch", t.epoch)
			t.end()
			return
		case err != nil && !failed:
			t.member.log.Warn("the term could not be renewed; it is tried again", "epoch", t.epoch, "error", err)
		}
		failed = err != nil
	}
}

func (t *Term) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Renew(ctx, t.epoch)
}

// Resign ends the term, so that another member leads at once.
func (t *Term) Resign(ctx context.Context) error {
	t.end()
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Resign(ctx, t.epoch)
}
