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

const (
	// lag is how far Notion's queries have been seen behind its pages. An incremental
	// sync goes back that far before the last one, and a page read within that time
	// outweighs a query's row that contradicts it.
	lag = 2 * time.Minute
	// keepEvery is how often the time of the last sync is stored, which waits for the disk. Until
	// its first sync a daemon says that the tasks are older than they are, by that much at most.
	keepEvery = time.Minute
	// maxLookups bounds the pages that one sync reads beside its queries, so that a
	// large board cannot use up the rate limit.
	maxLookups = 20
	// batch is how many rows are stored at a time. Other writers, claims above all, get
	// their turn in between.
	batch = 500
	// pageSize is how many rows an answer of Notion has at most.
	pageSize = 100
)

// Result is what a sync did.
type Result struct {
	// Full is set if the whole board was read.
	Full bool
	// Read is the number of rows that the queries returned.
	Read int
	// Changed has the tasks that are new or different. One that changed twice meanwhile is
	// in it twice.
	Changed []task.Task
	// Gone has the tasks that are no longer in the database: trashed, archived, moved, or
	// no longer shared.
	Gone []task.Task

	// Hinted is set if Notion said that something had happened, see Look.
	Hinted bool

	requests int       // that it took, about
	removed  []task.ID // from the mirror: those of Gone, and finished ones that expired
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
