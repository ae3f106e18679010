package mirror

import (
	"context"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
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

// Blockers returns the tasks that t waits for, see task.Unfinished, for a caller that
// waits. It reads those that the mirror does not have. While tasks may not be
// claimed, see Closed, it returns the reason as an error: pages may not show all their
// dependencies then.
func (m *Mirror) Blockers(ctx context.Context, t task.Task) ([]task.ID, error) {
	if err := m.Closed(); err != nil {
		return nil, err
	}
	ctx = m.source.Impatient(ctx)
	var failed error
	out := task.Unfinished(t, func(id task.ID) (task.Task, bool) {
		known, ok := m.Task(id)
		if !ok {
			var err error
			if known, ok, err = m.fetch(ctx, id); err != nil {
				failed = err
			}
		}
		return known, ok
	})
	return out, failed
}

// Knows reports whether Blockers can answer for t without a request to Notion.
func (m *Mirror) Knows(t task.Task) bool {
	for _, id := range t.Awaited() {
		if _, known := m.Task(id); !known && !m.Absent(id) {
			return false
		}
	}
	return true
}

// lookUp reads what unfinished tasks wait for and the mirror does not have, because it
// was finished long ago. It reads maxLookups at most, returns how many, and logs its error.
func (m *Mirror) lookUp(ctx context.Context) (lookups int) {
	for t := range m.Tasks() {
		if t.Status.Finished() {
			continue
		}
		for _, id := range t.Awaited() {
			if _, known := m.Task(id); known || m.Absent(id) {
				continue
			}
			if lookups == maxLookups {
				return lookups
			}
			lookups++
			if _, _, err := m.fetch(ctx, id); err != nil {
				m.log.Warn("dependencies could not be looked up", claim.AttrError, err)
				return lookups
			}
		}
	}
	return lookups
}

// ReadTitles reads the titles of the pages to which tasks relate, one after another, lookBurst at most,
// and only while that makes nobody wait. Those of tasks cost no request. It returns when to go on;
// nothing but a sync makes that earlier. It logs its error. One caller at a time.
func (m *Mirror) ReadTitles(ctx context.Context) (wait time.Duration) {
	ctx = m.source.Background(m.source.Impatient(ctx))
	read, wait, news := 0, clock.UntilWoken, false
	next := func(id task.ID) (more bool) {
		if t, known := m.Task(id); known {
			news = m.source.SetTitle(id, t.Title, nil) || news
			return true
		}
		free, apart := m.source.Room()
		if !free || read == lookBurst {
			wait = apart
			return false
		}
		read++
		title, err := m.source.PageTitle(ctx, id)
		if isKind(err, claim.Unavailable) || ctx.Err() != nil {
			return false // a sync that succeeds wakes the caller
		}
		news = m.source.SetTitle(id, title, err) || news
		return true
	}
	for t := range m.Tasks() {
		if slices.ContainsFunc(m.source.Untitled(t), func(id task.ID) bool { return !next(id) }) {
			break
		}
	}
	if news {
		m.applying <- struct{}{}
		changed, err := m.put(ctx, m.rows.related())
		<-m.applying
		if err != nil {
			m.log.Warn("the titles of related pages could not be stored", claim.AttrError, err)
		}
		m.tell(ids(changed))
	}
	return wait
}

// fetch reads a page that queries do not list. ok is false if there is no such task;
// that is remembered until the next full sync.
func (m *Mirror) fetch(ctx context.Context, id task.ID) (t task.Task, ok bool, err error) {
	if m.Absent(id) {
		return task.Task{}, false, nil
	}
	r, err := m.source.Get(ctx, id)
	switch {
	case isKind(err, claim.NotFound):
		m.mu.Lock()
		m.absent[id] = struct{}{}
		m.mu.Unlock()
		return task.Task{}, false, nil
	case err != nil:
		return task.Task{}, false, err
	}
	m.Observe(r)
	return r.Task, true, nil
}

// Absent reports whether Notion has said, since the last full sync, that there is no such task on
// the board, or none that it shows us.
func (m *Mirror) Absent(id task.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, absent := m.absent[id]
	return absent
}

// isKind reports whether err is of that kind.
func isKind(err error, kind claim.StoreErrorKind) bool {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	return isFailed && failed.Kind == kind
}
