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
	// lag is how far Notion's queries have been seen behind its pages. An
	// incremental sync begins that much before the last one, and a query's row
	// that contradicts a page read within that time does not count.
	lag = 2 * time.Minute
	// maxLookups bounds the pages read in one sync beside its queries, so that a
	// full board cannot flood the budget.
	maxLookups = 20
	// batch is how many rows are taken over at a time. Others who write to the
	// storage, claims above all, get their turn in between.
	batch = 500
)

// Result is what a sync did.
type Result struct {
	// Full is set if the whole board was read.
	Full bool
	// Read is how many rows the queries had.
	Read int
	// Changed has the tasks that are new or different, as they are now; one that
	// changed twice meanwhile is there twice.
	Changed []task.Task
	// Gone has the tasks that the database does not have any more: trashed,
	// archived, moved, or not shared.
	Gone []task.Task

	removed []task.ID // from the mirror: those of Gone, and those that it need not keep
}

// pull brings the mirror up to date: with the whole board if full is set or this
// process has not read it yet, else with what was edited since the last time. A
// query that fails changes nothing. It waits for one that is under way.
func (m *Mirror) pull(ctx context.Context, full bool) (Result, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	// Both are taken before the question is asked: what is read or written while
	// the answer is on its way is newer than the answer.
	began, s := m.source.Now(), m.next()
	result := Result{Full: full || !m.Listed()}
	err := m.query(ctx, &result, began, s)
	if err == nil {
		err = m.storage.SetMeta(ctx, metaSynced, began.Format(time.RFC3339Nano))
	}
	if all := append(ids(result.Changed), result.removed...); len(all) > 0 {
		m.watcher.Changed(all...)
	}
	if err != nil {
		return result, fmt.Errorf("the tasks could not be synced: %w", err)
	}
	m.mu.Lock()
	m.at, m.listed = began, true
	m.mu.Unlock()
	if err := m.lookUp(ctx); err != nil {
		m.log.Warn("dependencies could not be looked up", "error", err)
	}
	return result, nil
}

// query asks what there is, or what was edited, and takes it over.
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

// settle returns the rows without those that contradict a page read shortly before.
// The query may be behind these pages, so they are read again and taken over instead.
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

// ask reads a page and takes it over.
func (m *Mirror) ask(ctx context.Context, id task.ID, result *Result) error {
	r, err := m.source.Get(ctx, id)
	if err != nil {
		return err
	}
	changed, err := m.apply(ctx, reading{Task: r.Task, at: m.next(), page: true})
	result.Changed = append(result.Changed, changed...)
	return err
}

// drop removes tasks that a full listing, begun at s, does not have. Unfinished ones,
// and finished ones edited since kept, have left the board; one that was edited or read
// so lately that the query may be behind it is read before it is removed. A finished one
// that was edited earlier stays as long as something unfinished depends on it.
func (m *Mirror) drop(ctx context.Context, listed []task.Task, kept time.Time, asked map[task.ID]bool, s stamp, result *Result) error {
	needed := needed(m.Tasks())
	inList := make(map[task.ID]bool, len(listed))
	for _, t := range listed {
		inList[t.ID] = true
	}
	recent := time.Now().Add(-lag)
	var remove []task.ID
	for _, t := range m.rows.missing(s) {
		expired := t.Status.Finished() && t.Edited.Before(kept)
		switch {
		case inList[t.ID], asked[t.ID], expired && needed[t.ID]:
			continue
		case !expired && (t.Edited.After(m.source.Now().Add(-lag)) || m.rows.page(t.ID).After(recent)):
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

// needed returns the ids of the tasks that unfinished ones depend on.
func needed(tasks iter.Seq[task.Task]) map[task.ID]bool {
	on := make(map[task.ID]bool)
	for t := range tasks {
		if !t.Status.Finished() {
			for _, id := range t.DependsOn {
				on[id] = true
			}
		}
	}
	return on
}

// missed reads the pages of claimed tasks that an incremental query, begun at s, did
// not list although it lists whatever is claimed. No query lists a page that was
// trashed, and whoever holds its task should not have to wait for the next full sync
// to hear of it.
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
