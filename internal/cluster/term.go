package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"dibs/internal/journal"
)

// Term is the time during which a member leads.
type Term struct {
	member *Member
	term   journal.Term
	once   sync.Once
	over   chan struct{}
}

// Epoch returns the number of the term, counted over all members.
func (t *Term) Epoch() int64 { return t.term.Epoch }

// Open opens the journal for the term. If the journal refuses the member's writes, the term ends.
func (t *Term) Open(ctx context.Context) (*journal.Journal, error) {
	j, err := t.member.database.Open(ctx, t.term)
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-j.Over():
			t.member.log.Error("this daemon leads no more: the journal takes nothing from it", "epoch", t.term.Epoch)
			t.end()
		case <-t.over:
		}
	}()
	return j, nil
}

// Over returns a channel that is closed once the member no longer leads.
func (t *Term) Over() <-chan struct{} { return t.over }

func (t *Term) end() { t.once.Do(func() { close(t.over) }) }

// Keep renews the term until ctx ends or the term is over. It keeps trying while the database is
// away: nobody can take the lead then, and nothing can be saved. Whether the term is over turns out
// when the database is back.
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
			t.member.log.Error("this daemon leads no more: its term is over", "epoch", t.term.Epoch)
			t.end()
			return
		case err != nil && !failed:
			t.member.log.Warn("the term could not be renewed; it is tried again", "epoch", t.term.Epoch, "error", err)
		}
		failed = err != nil
	}
}

func (t *Term) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Renew(ctx, t.term)
}

// Resign ends the term, so that another member can lead at once.
func (t *Term) Resign(ctx context.Context) error {
	t.end()
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Resign(ctx, t.term)
}
