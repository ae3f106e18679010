package mirror

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

// The mirror counts as out of date staleAfter and two intervals after the last sync: a busy
// daemon syncs late.
const staleAfter = 2 * time.Minute

// Standing says how current the mirror is.
type Standing struct {
	// SyncedAt is Notion's time of the last successful sync, perhaps of an earlier run; zero
	// if there was none.
	SyncedAt time.Time
	// Old is the time since then.
	Old time.Duration
	// Stale is set when the last sync failed or is overdue, or the board is being
	// read for the first time.
	Stale bool
	// Failure is why the last sync failed; nil if it did not.
	Failure error
	// Progress is the progress of the full sync under way; nil if there is none.
	Progress *Progress
}

// Progress is the progress of a full sync.
type Progress struct {
	// Read is the number of rows read.
	Read int
	// Of is the expected number, the same as last time; zero if that is not known.
	Of int
}

// Standing returns how current the mirror is.
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

// note stores how a sync ended. It logs when syncs begin to fail, and when they succeed again.
func (m *Mirror) note(err error) {
	if errors.Is(err, context.Canceled) {
		return // the daemon stops, or the caller has gone
	}
	m.mu.Lock()
	before := m.failure
	m.failure = err
	m.mu.Unlock()
	switch {
	case err != nil && before == nil:
		m.log.Warn("sync failed; the tasks are as of the last one", claim.AttrError, err)
	case err == nil && before != nil:
		m.log.Info("sync works again")
	}
}

// setProgress sets the progress of the full sync under way; nil when it is over.
func (m *Mirror) setProgress(p *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = p
}
