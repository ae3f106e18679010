// Package member is what a daemon is to the others that share its journal: the one that
// leads, and does the work, or one that stands by until it may.
//
// Who leads is decided in the database, by its clock: a term lasts [journal.Term], and is
// renewed every [beat]. The journal refuses whatever a former leader would save, so nothing
// depends on a leader that notices in time that it leads no more; it only has to start again.
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
	// beat is how often a leader renews its term, and how often the others look whether it is
	// over.
	beat = 2 * time.Second
	// look is how long the database may take to answer either.
	look = beat
)

// ErrDeposed says that this member leads no more: another one may, and whoever starts again
// on the journal stands by at first.
var ErrDeposed = errors.New("this daemon leads no more")

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
	// Leader leads since Since, by this machine's clock as far as this member saw; empty if
	// nobody does, or that is not known.
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

// Lead waits until the member leads, and returns its term. The error is that of ctx.
func (m *Member) Lead(ctx context.Context) (*Term, error) {
	for {
		sent := time.Now()
		epoch, err := m.try(ctx)
		if epoch > 0 {
			return &Term{member: m, epoch: epoch, until: sent.Add(journal.Term), over: make(chan struct{})}, nil
		}
		m.note(ctx, err)
		select {
		case <-time.After(beat):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (m *Member) try(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	return m.database.Lead(ctx, m.name)
}

// note takes note of who leads, as far as that can be asked.
func (m *Member) note(ctx context.Context, err error) {
	asking, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	now := Standing{Away: err}
	if err == nil {
		found, ferr := m.database.Members(asking)
		if now.Away = ferr; ferr == nil && !found.Over {
			now.Leader, now.Epoch, now.Since = found.Leader, found.Epoch, time.Now()
		}
	}
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	before := m.standing
	if now.Epoch == before.Epoch && now.Leader == before.Leader {
		now.Since = before.Since
	}
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
	until  time.Time // by this machine's clock, at the earliest
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

// Keep renews the term until ctx ends, or the term does: because another member leads, or the
// database could not be asked for as long as a term lasts.
func (t *Term) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.over:
			return
		case <-time.After(beat):
		}
		sent := time.Now()
		err := t.renew(ctx)
		switch {
		case err == nil:
			t.until = sent.Add(journal.Term)
		case ctx.Err() != nil:
			return
		case errors.Is(err, journal.ErrDeposed):
			t.member.log.Error("this daemon leads no more: its term is over", "epoch", t.epoch)
			t.end()
			return
		case time.Now().After(t.until):
			t.member.log.Error("this daemon leads no more: its term could not be renewed", "epoch", t.epoch, "error", err)
			t.end()
			return
		default:
			t.member.log.Warn("the term could not be renewed; it is tried again", "epoch", t.epoch, "error", err)
		}
	}
}

func (t *Term) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	return t.member.database.Renew(ctx, t.epoch)
}

// Resign ends the term, so that another member leads at once.
func (t *Term) Resign(ctx context.Context) error {
	t.end()
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	return t.member.database.Resign(ctx, t.epoch)
}
