package mirror

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	Read    int
	Changed []task.Change
	// Gone has the tasks that the database does not have any more: trashed,
	// archived, moved, or not shared.
	Gone []task.Task
}

// Progress is how far a full sync has come.
type Progress struct {
	// Read is how many rows have been read.
	Read int
	// Of is how many there will be, if it is as many as last time; zero if that
	// is not known.
	Of int
}

// Progress returns how far the full sync under way has come; nil if there is none.
func (m *Mirror) Progress() *Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.progress == nil {
		return nil
	}
	p := *m.progress
	return &p
}

// Sync brings the mirror up to date: with the whole board if full is set or this
// process has not read it yet, else with what was edited since the last time. A
// query that fails changes nothing. It waits for a sync that is under way.
func (m *Mirror) Sync(ctx context.Context, full bool) (Result, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	m.mu.Lock()
	full = full || !m.listed
	m.mu.Unlock()

	// Both are taken before the question is asked: what is read or written while
	// the answer is on its way is newer than the answer.
	began, s := m.source.Now(), m.next()
	result := Result{Full: full}
	err := m.pull(ctx, &result, began, s)
	if err == nil {
		err = m.storage.SetMeta(ctx, metaSynced, began.Format(time.RFC3339Nano))
	}
	if len(result.Changed)+len(result.Gone) > 0 {
		defer m.onChange()
	}
	if err != nil {
		return result, fmt.Errorf("the tasks could not be synced: %w", err)
	}
	m.mu.Lock()
	m.synced, m.listed = began, true
	m.mu.Unlock()
	if err := m.lookUp(ctx); err != nil {
		m.log.Warn("dependencies could not be looked up", "error", err)
	}
	return result, nil
}

// pull reads what there is to read, and takes it over.
func (m *Mirror) pull(ctx context.Context, result *Result, began time.Time, s stamp) error {
	kept := began.Add(-m.keep).Truncate(time.Minute)
	var rows []task.Task
	var err error
	if result.Full {
		m.setProgress(&Progress{Of: m.Len()})
		defer m.setProgress(nil)
		rows, err = m.source.List(ctx, kept, m.advance)
	} else {
		rows, err = m.source.EditedSince(ctx, m.SyncedAt().Add(-lag).Truncate(time.Minute))
	}
	if err != nil {
		return err
	}
	result.Read = len(rows)
	asked := make(map[task.ID]bool)
	rows, err = m.settle(ctx, rows, asked, result)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, batch) {
		changed, err := m.apply(ctx, some, s, false)
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

// settle returns the rows without those that contradict a page read shortly
// before. For these the page is asked again: it decides, for the query may be
// behind it.
func (m *Mirror) settle(ctx context.Context, rows []task.Task, asked map[task.ID]bool, result *Result) ([]task.Task, error) {
	certain := rows[:0]
	for _, t := range rows {
		if len(asked) == maxLookups || !m.rows.doubts(t, time.Now().Add(-lag)) {
			certain = append(certain, t)
			continue
		}
		asked[t.ID] = true
		if err := m.ask(ctx, t.ID, result); err != nil && !notFound(err) {
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
	changed, err := m.apply(ctx, []task.Task{r.Task}, m.next(), true)
	result.Changed = append(result.Changed, changed...)
	return err
}

// drop removes what a full listing, begun at s, does not have and should: the
// tasks that are unfinished or were edited since kept. Of the other finished ones
// it removes those that nothing unfinished depends on. One that was touched so
// shortly before that the query may not have heard of it is asked for.
func (m *Mirror) drop(ctx context.Context, listed []task.Task, kept time.Time, asked map[task.ID]bool, s stamp, result *Result) error {
	needed := make(map[task.ID]bool)
	for t := range m.Tasks() {
		if !t.Status.Finished() {
			for _, id := range t.DependsOn {
				needed[id] = true
			}
		}
	}
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
			} else if !notFound(err) {
				return err
			}
		}
		remove = append(remove, t.ID)
		if !expired && !t.Trashed {
			result.Gone = append(result.Gone, t)
		}
	}
	return m.remove(ctx, remove, s)
}

// missed reads the pages of the claimed tasks that an incremental query, begun at
// s, should have had and had not. No query lists a page that was trashed, and
// whoever holds its task should not have to wait for the next full sync.
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
		case notFound(err):
			gone = append(gone, t.ID)
			result.Gone = append(result.Gone, t)
		case err != nil:
			return err
		}
	}
	return m.remove(ctx, gone, s)
}

// remove removes tasks of which there is no reading at s or later.
func (m *Mirror) remove(ctx context.Context, remove []task.ID, s stamp) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	// Somebody may have come upon one meanwhile.
	remove = slices.DeleteFunc(remove, func(id task.ID) bool { return m.rows.readSince(id, s) })
	if len(remove) == 0 {
		return nil
	}
	if err := m.storage.DeleteTasks(ctx, remove); err != nil {
		return err
	}
	m.rows.remove(remove)
	return nil
}

// lookUp fetches the dependencies of open tasks that the mirror does not know:
// those finished long ago.
func (m *Mirror) lookUp(ctx context.Context) error {
	lookups := 0
	for t := range m.Tasks() {
		if t.Status.Finished() {
			continue
		}
		for _, id := range t.DependsOn {
			if _, known := m.Task(id); known || m.isAbsent(id) {
				continue
			}
			if lookups++; lookups > maxLookups {
				return nil
			}
			if _, _, err := m.fetch(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Mirror) setProgress(p *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = p
}

// advance notes that n rows have been read.
func (m *Mirror) advance(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress.Read = n
}
