package mirror

import (
	"context"
	"errors"
	"time"
)

// staleAfter, and two intervals, is how long after the last sync the mirror counts
// as out of date: a daemon that is busy syncs late.
const staleAfter = 2 * time.Minute

// Standing says how far the mirror can be relied on.
type Standing struct {
	// SyncedAt is Notion's time of the last successful sync, of an earlier run
	// perhaps; zero if there never was one.
	SyncedAt time.Time
	// Old is the time since then.
	Old time.Duration
	// Stale is set when the last sync failed or is overdue, or the board is being
	// read for the first time.
	Stale bool
	// Failure says why the last sync failed; nil if it did not.
	Failure error
	// Progress is that of the full sync under way; nil if there is none.
	Progress *Progress
}

// Progress is how far a full sync has come.
type Progress struct {
	// Read is how many rows have been read.
	Read int
	// Of is how many there will be, if it is as many as last time; zero if that
	// is not known.
	Of int
}

// Standing returns how things stand.
func (m *Mirror) Standing() Standing {
	now := m.source.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Standing{SyncedAt: m.at, Failure: m.failure}
	if !m.at.IsZero() {
		s.Old = max(0, now.Sub(m.at))
	}
	s.Stale = m.at.IsZero() || s.Old > m.stale || m.failure != nil
	if m.progress != nil {
		p := *m.progress
		s.Progress = &p
	}
	return s
}

// Listed reports whether this process has read the whole board.
func (m *Mirror) Listed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}

// failing reports whether the last sync failed.
func (m *Mirror) failing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure != nil
}

// note remembers how a sync ended, and logs when syncs begin to fail and when they
// succeed again.
func (m *Mirror) note(err error) {
	if errors.Is(err, context.Canceled) {
		return // the daemon stops, or whoever asked has gone
	}
	m.mu.Lock()
	before := m.failure
	m.failure = err
	m.mu.Unlock()
	switch {
	case err != nil && before == nil:
		m.log.Warn("sync failed; the tasks are as of the last one", "error", err)
	case err == nil && before != nil:
		m.log.Info("sync works again")
	}
}

// setProgress says how far the full sync under way has come; nil when it is over.
func (m *Mirror) setProgress(p *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = p
}
