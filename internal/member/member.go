// Package member is what a daemon is to the others that share its journal: the one that
// leads, and does the work, or one that stands by until it may.
//
// Who leads is decided in the database, by its clock: a term is over unless it is renewed,
// which a leader does every two seconds. The journal refuses whatever a former leader would
// save. So a leader need not notice in time that it leads no more: it only has to start again.
package member

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/journal"
)

const (
	// beat is how often a leader renews its term, and how long that may take.
	beat = 2 * time.Second
	// watch is how often the others look whether it is over.
	watch = time.Second
)

// Member is one of the daemons that share a journal. It is safe for concurrent use.
type Member struct {
	database *journal.Database
	name     string
	log      *slog.Logger

	mu       sync.Mutex
	standing Standing
}

// Standing is how a member stands that does not lead, as far as is known.
type Standing struct {
	// Leader leads since Since, by the database's clock; empty if nobody does, or that is not
	// known.
	Leader string
	Epoch  int64
	Since  time.Time
	// Away is why the database could not be asked, nil if it could.
	Away error
}

// New returns a member of that name.
func New(database *journal.Database, name string, log *slog.Logger) *Member {
	return &Member{database: database, name: name, log: log}
}

// Standing returns how the member stands while it waits for the lead.
func (m *Member) Standing() Standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing
}

// Lead waits until the member leads, and returns its term. The error is that of ctx. A member
// that was deposed lets the others try first: something had kept it from renewing its term.
func (m *Member) Lead(ctx context.Context, deposed bool) (*Term, error) {
	for {
		if deposed {
			m.note(ctx, nil)
			deposed = false
			if err := pause(ctx, beat); err != nil {
				return nil, err
			}
		}
		epoch, err := m.try(ctx)
		if epoch > 0 {
			return &Term{member: m, epoch: epoch, over: make(chan struct{})}, nil
		}
		m.note(ctx, err)
		if err := pause(ctx, watch); err != nil {
			return nil, err
		}
	}
}

// pause waits, and returns the error of ctx if it ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try says that the member is there, and takes the lead if nobody has it.
func (m *Member) try(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	if err := m.database.Introduce(ctx, m.name, []byte("{}")); err != nil {
		return 0, err
	}
	return m.database.Lead(ctx, m.name)
}

// Name is what the member is called.
func (m *Member) Name() string { return m.name }

// All returns who shares the journal, and who leads.
func (m *Member) All(ctx context.Context) (journal.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return m.database.Members(ctx)
}

// note takes note of who leads, as far as that can be asked.
func (m *Member) note(ctx context.Context, err error) {
	asking, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	now := Standing{Away: err}
	if err == nil {
		found, ferr := m.database.Members(asking)
		if now.Away = ferr; ferr == nil && !found.Over {
			now.Leader, now.Epoch, now.Since = found.Leader, found.Epoch, found.Since
		}
	}
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	before := m.standing
	m.standing = now
	m.mu.Unlock()
	switch {
	case now.Away != nil && before.Away == nil:
		m.log.Warn("whether this daemon may lead cannot be asked; it is tried again", "error", now.Away)
	case now.Away == nil && now.Leader != before.Leader && now.Leader != "":
		m.log.Info("standing by: another daemon leads", "leader", now.Leader, "epoch", now.Epoch)
	}
}

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
	if err := t.member.database.Renew(ctx, t.epoch); err != nil {
		return err
	}
	return t.member.database.Introduce(ctx, t.member.name, []byte("{}"))
}

// Resign ends the term, so that another member leads at once.
func (t *Term) Resign(ctx context.Context) error {
	t.end()
	ctx, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	return t.member.database.Resign(ctx, t.epoch)
}
