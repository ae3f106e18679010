package mirror

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
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

// pull brings the mirror up to date: with the whole board if full is set or this process
// has not read it yet, else with what was edited since the last sync. If the query fails,
// nothing changes. pull waits for a sync that is under way.
func (m *Mirror) pull(ctx context.Context, full bool) (Result, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	// Both are taken before the query, because what is read or written during it is newer
	// than its answer.
	began, s := m.source.Now(), m.next()
	result := Result{Full: full || !m.Listed()}
	err := m.query(ctx, &result, began, s)
	if err == nil && (result.Full || began.Sub(m.kept) >= keepEvery) {
		if err = m.storage.SetMeta(ctx, metaSynced, began.Format(time.RFC3339Nano)); err == nil {
			m.kept = began
		}
	}
	m.tell(append(ids(result.Changed), result.removed...))
	if err != nil {
		return result, fmt.Errorf("the tasks could not be synced: %w", err)
	}
	m.mu.Lock()
	m.at, m.listed = began, true
	m.mu.Unlock()
	result.requests += m.lookUp(ctx)
	if !result.Full {
		m.mu.Lock()
		m.cost = result.requests
		m.mu.Unlock()
		_, apart := m.source.Room()
		m.share.spend(result.requests, apart)
	}
	return result, nil
}

// query asks for all tasks, or for those that were edited, and stores them.
func (m *Mirror) query(ctx context.Context, result *Result, began time.Time, s stamp) error {
	kept := began.Add(-m.keep).Truncate(time.Minute)
	var rows []task.Task
	var err error
	if result.Full {
		m.setProgress(&Progress{Of: m.rows.len()})
		defer m.setProgress(nil)
		rows, err = m.source.List(ctx, kept, m.advance)
	} else {
		rows, err = m.source.EditedSince(ctx, m.Standing().SyncedAt.Add(-lag).Truncate(time.Minute))
	}
	if err != nil {
		return err
	}
	result.Read = len(rows)
	asked := make(map[task.ID]bool)
	defer func() { result.requests = 1 + result.Read/pageSize + len(asked) }()
	rows, err = m.recheck(ctx, rows, asked, result)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, batch) {
		read := make([]reading, len(some))
		for i, t := range some {
			read[i] = reading{Task: t, at: s}
		}
		changed, err := m.apply(ctx, read...)
		if err != nil {
			return err
		}
		result.Changed = append(result.Changed, changed...)
	}
	if !result.Full {
		return m.missed(ctx, asked, s, result)
	}
	m.mu.Lock()
	clear(m.absent)
	m.mu.Unlock()
	return m.drop(ctx, rows, kept, asked, s, result)
}

// recheck returns the rows without those that contradict a page read shortly before. The
// query may be behind these pages, so it reads them again and stores them instead.
func (m *Mirror) recheck(ctx context.Context, rows []task.Task, asked map[task.ID]bool, result *Result) ([]task.Task, error) {
	certain := rows[:0]
	for _, t := range rows {
		if len(asked) == maxLookups || !m.rows.doubts(t, time.Now().Add(-lag)) {
			certain = append(certain, t)
			continue
		}
		asked[t.ID] = true
		if err := m.ask(ctx, t.ID, result); err != nil && !isKind(err, claim.NotFound) {
			return nil, err
		}
	}
	return certain, nil
}

// ask reads a page and stores it.
func (m *Mirror) ask(ctx context.Context, id task.ID, result *Result) error {
	r, err := m.source.Get(ctx, id)
	if err != nil {
		return err
	}
	changed, err := m.apply(ctx, reading{Task: r.Task, at: m.next(), page: true})
	result.Changed = append(result.Changed, changed...)
	return err
}

// drop removes tasks that are not in a full listing begun at s. Unfinished tasks, and
// finished ones edited since kept, have left the board. If one was edited or read so
// recently that the query may be behind it, or may have left the scope, drop reads its page
// before it removes it. A finished task edited earlier, or one that is not for agents, stays
// while an unfinished one depends on it, and while it shows a claim.
func (m *Mirror) drop(ctx context.Context, listed []task.Task, kept time.Time, asked map[task.ID]bool, s stamp, result *Result) error {
	needed := needed(m.Tasks())
	inList := make(map[task.ID]bool, len(listed))
	for _, t := range listed {
		inList[t.ID] = true
	}
	recent := time.Now().Add(-lag)
	var remove []task.ID
	for _, t := range m.rows.missing(s) {
		expired := (t.Status.Finished() || t.Outside != "") && t.Edited.Before(kept)
		claimed := t.Status == task.InProgress && t.Token != ""
		switch {
		case inList[t.ID], asked[t.ID], expired && (needed[t.ID] || claimed):
			continue
		case !expired && (m.scoped || t.Edited.After(m.source.Now().Add(-lag)) || m.rows.page(t.ID).After(recent)):
			if len(asked) == maxLookups {
				continue
			}
			asked[t.ID] = true
			if err := m.ask(ctx, t.ID, result); err == nil {
				continue
			} else if !isKind(err, claim.NotFound) {
				return err
			}
		}
		remove = append(remove, t.ID)
		if !expired && !t.Trashed {
			result.Gone = append(result.Gone, t)
		}
	}
	return m.remove(ctx, remove, s, result)
}

// needed returns the ids of the tasks that unfinished ones wait for.
func needed(tasks iter.Seq[task.Task]) map[task.ID]bool {
	on := make(map[task.ID]bool)
	for t := range tasks {
		if !t.Status.Finished() {
			for _, id := range t.Awaited() {
				on[id] = true
			}
		}
	}
	return on
}

// missed reads the pages of claimed tasks that an incremental query, begun at s, should have
// listed and did not. No query lists a trashed page, and the holder of its task should learn
// of that before the next full sync.
func (m *Mirror) missed(ctx context.Context, asked map[task.ID]bool, s stamp, result *Result) error {
	var gone []task.ID
	for t := range m.Tasks() {
		if t.Status != task.InProgress || t.Token == "" || t.Trashed || m.rows.readSince(t.ID, s) {
			continue
		}
		if len(asked) == maxLookups {
			break
		}
		asked[t.ID] = true
		switch err := m.ask(ctx, t.ID, result); {
		case isKind(err, claim.NotFound):
			gone = append(gone, t.ID)
			result.Gone = append(result.Gone, t)
		case err != nil:
			return err
		}
	}
	return m.remove(ctx, gone, s, result)
}

// advance notes that n rows have been read.
func (m *Mirror) advance(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress.Read = n
}

// Look brings pages up to date of which Notion said that something happened to them. One page is
// read. Of several, those that are not in gone are looked for by a sync, and read only if that does
// not show them. gone are pages that were moved to the trash, which no query shows. Look reads
// maxLookups pages at most, and returns those that are left; after an error, all that it did not
// read. It reports to the watcher like a sync, waits for one that is under way, and waits until it
// is within the share that quick syncs and looks have of the rate.
func (m *Mirror) Look(ctx context.Context, changed, gone []task.ID) (result Result, left []task.ID, err error) {
	if err := m.allowed(ctx); err != nil {
		return Result{}, append(changed, gone...), err
	}
	ctx = m.source.Background(m.source.Impatient(ctx))
	pages := gone
	if len(changed)+len(gone) > 1 && len(changed) > 0 {
		began := m.next()
		if result, err = m.sync(ctx, false, true); err != nil {
			return result, append(changed, gone...), err
		}
		for _, id := range changed {
			if !m.rows.readSince(id, began) {
				pages = append(pages, id)
			}
		}
	} else {
		pages = append(pages, changed...)
	}
	if len(pages) == 0 {
		return result, nil, nil
	}
	read, left, err := m.read(ctx, pages)
	result.Changed = append(result.Changed, read.Changed...)
	result.Gone = append(result.Gone, read.Gone...)
	if serr := m.watcher.Synced(ctx, read); err == nil {
		err = serr
	}
	return result, left, err
}

// allowed waits until one more request is within the share.
func (m *Mirror) allowed(ctx context.Context) error {
	for {
		wait := m.share.wait()
		if wait <= 0 {
			return nil
		}
		if !sleep(ctx, wait, nil, nil) {
			return context.Cause(ctx)
		}
	}
}

// read reads pages, as many as it may, drops those that are not there any more, and returns those
// that it did not get to.
func (m *Mirror) read(ctx context.Context, pages []task.ID) (result Result, left []task.ID, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, pages, context.Cause(ctx)
	}
	result.Hinted = true
	defer func() {
		m.tell(append(ids(result.Changed), result.removed...))
		_, apart := m.source.Room()
		m.share.spend(result.requests, apart)
	}()
	for i, id := range pages {
		if i == maxLookups {
			return result, pages[i:], nil
		}
		s := m.next()
		result.requests++
		err := m.ask(ctx, id, &result)
		if err == nil {
			continue
		}
		if !isKind(err, claim.NotFound) {
			return result, pages[i:], err
		}
		t, known := m.Task(id)
		if !known {
			continue
		}
		if err := m.remove(ctx, []task.ID{id}, s, &result); err != nil {
			return result, pages[i:], err
		}
		result.Gone = append(result.Gone, t)
	}
	result.requests += m.lookUp(ctx)
	return result, nil, nil
}

// sleep waits for d, or for one of the channels, and reports whether ctx is still going.
func sleep(ctx context.Context, d time.Duration, back, quicker <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-back:
	case <-quicker:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
