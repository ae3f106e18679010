package mirror

import (
	"context"
	"time"

	"dibs/internal/claim"
)

// listPatience is the longest pause that reading the whole board waits for, so that it need not
// begin anew. Notion counts requests over a minute; this is a little more.
const listPatience = 75 * time.Second

// RunOnce makes the periodic sync: of what was edited since the last one, or of the whole board if
// this process has not read it yet. In a long pause it fails rather than wait, so that the mirror
// counts as out of date.
func (m *Mirror) RunOnce(ctx context.Context) (Result, error) {
	if m.Listed() {
		ctx = m.source.Impatient(ctx)
	} else {
		ctx = m.source.Patient(ctx, listPatience)
	}
	return m.sync(ctx, false, false)
}

// Sync makes a sync for a caller that waits, of the whole board if full is set. It waits for a sync
// that is under way, and fails at once in a long pause.
func (m *Mirror) Sync(ctx context.Context, full bool) (Result, error) {
	// The sync under way may be waiting for the end of the pause.
	if err := m.source.Paused(); err != nil {
		return Result{}, err
	}
	ctx = m.source.Impatient(ctx)
	if full {
		return m.relist(ctx)
	}
	return m.sync(ctx, false, false)
}

// SyncAll makes a sync of the whole board that nobody waits for.
func (m *Mirror) SyncAll(ctx context.Context) (Result, error) {
	return m.relist(m.source.Patient(ctx, listPatience))
}

// relist reads the schema and the whole board. It reads the schema because not every change of that
// shows in the tasks.
func (m *Mirror) relist(ctx context.Context) (Result, error) {
	if err := m.source.Check(ctx); err != nil {
		m.note(err)
		return Result{}, err
	}
	return m.sync(ctx, true, false)
}

// sync makes one sync and reports it to the watcher.
func (m *Mirror) sync(ctx context.Context, full, hinted bool) (Result, error) {
	again := m.failing()
	result, err := m.attempt(ctx, full)
	result.Hinted = hinted
	switch {
	case err != nil && ctx.Err() != nil: // the caller has gone; that says nothing about Notion
	case err != nil:
		m.watcher.Unsynced(ctx, again)
	default:
		err = m.watcher.Synced(ctx, result)
	}
	if err == nil {
		m.mu.Lock()
		m.done = time.Now()
		m.mu.Unlock()
	}
	return result, err
}

// attempt makes one sync, and notes what it shows of Notion's and the schema's state.
func (m *Mirror) attempt(ctx context.Context, full bool) (_ Result, err error) {
	defer func() {
		if err != nil && m.Closed() != nil {
			m.mu.Lock()
			m.lacked = true
			m.mu.Unlock()
		}
	}()
	// If syncs fail, either Notion is down or only queries fail. One request that is not a
	// query tells which: if only queries fail, claims go on.
	if m.failing() {
		if err := m.source.Check(ctx); err != nil {
			m.note(err)
			return Result{}, err
		}
	}
	result, err := m.pull(ctx, full || m.wantsAll())
	if err != nil && ctx.Err() != nil {
		return result, err
	}
	if isKind(err, claim.Unavailable) && !m.failing() {
		if down := m.source.Check(ctx); down != nil {
			err = down
		}
	}
	m.note(err)
	if err != nil {
		return result, err
	}
	if result.Full {
		m.mu.Lock()
		m.lacked = false
		m.mu.Unlock()
		err = KeepSchema(ctx, m.storage, m.source.Known())
	}
	return result, err
}

// Anew makes the next sync read the whole board, because tasks have to be read differently.
func (m *Mirror) Anew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lacked = true
}

// wantsAll reports whether the whole board has to be read: after the schema was broken, tasks show
// other values although nobody edited them.
func (m *Mirror) wantsAll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lacked || m.Closed() != nil
}
