// Package mirror keeps the local copy of the tasks database, which answers
// every question about tasks without asking Notion.
//
// The mirror is a hint: a query may be stale, and a person may have edited a
// task since. Whoever acts on a task reads its page first.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// overlap is how far before the last sync an incremental one begins. Notion
// cuts edit times to the minute, and its queries have been seen to lag.
const overlap = 2 * time.Minute

// maxLookups bounds the pages fetched after one sync for dependencies that no
// query lists, so that a full board cannot flood the budget.
const maxLookups = 20

// Source is the tasks database in Notion.
type Source interface {
	// Unfinished lists all tasks that are neither COMPLETED nor CANCELLED.
	Unfinished(ctx context.Context) ([]task.Task, error)
	// EditedSince lists the tasks edited at t or later, finished ones too.
	EditedSince(ctx context.Context, t time.Time) ([]task.Task, error)
	// Get reads one page; a *claim.StoreError of kind NotFound says there is none.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time
}

// Storage keeps the rows across restarts. A row is never overwritten by one
// that was read earlier.
type Storage interface {
	PutTasks(ctx context.Context, tasks []task.Task, readAt time.Time) ([]task.Change, error)
	ReplaceUnfinished(ctx context.Context, tasks []task.Task, readAt time.Time) (changed []task.Change, gone []task.Task, err error)
	Task(ctx context.Context, id task.ID) (t task.Task, readAt time.Time, ok bool, err error)
	Tasks(ctx context.Context) ([]task.Task, error)
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// metaStamp is the key under which the last stamp of a sync is kept.
const metaStamp = "mirror.stamp"

// Mirror is safe for concurrent use; one sync runs at a time.
type Mirror struct {
	source   Source
	storage  Storage
	log      *slog.Logger
	onChange func()

	syncing sync.Mutex

	mu     sync.Mutex
	stamp  time.Time            // the last one given out
	synced time.Time            // Notion's time of the last successful sync
	absent map[task.ID]struct{} // dependencies that Notion does not show us
}

// New returns a mirror over what storage kept of an earlier run. onChange is
// called, without any lock held, whenever a task changed.
func New(ctx context.Context, source Source, storage Storage, log *slog.Logger, onChange func()) (*Mirror, error) {
	m := &Mirror{
		source: source, storage: storage, log: log, onChange: onChange,
		absent: make(map[task.ID]struct{}),
	}
	last, err := storage.Meta(ctx, metaStamp)
	if err != nil {
		return nil, err
	}
	if last != "" {
		if m.stamp, err = time.Parse(time.RFC3339Nano, last); err != nil {
			return nil, fmt.Errorf("the mirror's last stamp: %w", err)
		}
	}
	return m, nil
}

// nextStamp orders readings: later calls get later stamps, even when the wall
// clock is set back.
func (m *Mirror) nextStamp() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().Round(0).Truncate(time.Millisecond)
	if !now.After(m.stamp) {
		now = m.stamp.Add(time.Millisecond)
	}
	m.stamp = now
	return now
}

// Observe takes over a page that was read or written just now.
func (m *Mirror) Observe(r claim.Reading) {
	changed, err := m.storage.PutTasks(context.Background(), []task.Task{r.Task}, m.nextStamp())
	if err != nil {
		m.log.Warn("the mirror could not take over a page", "task", r.Task.ID, "error", err)
		return
	}
	if len(changed) > 0 {
		m.onChange()
	}
}

// SyncedAt returns Notion's time of the last successful sync; zero if none.
func (m *Mirror) SyncedAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Tasks returns all tasks of the mirror, in the order in which they are offered.
func (m *Mirror) Tasks(ctx context.Context) ([]task.Task, error) {
	return m.storage.Tasks(ctx)
}

// Task returns one task of the mirror.
func (m *Mirror) Task(ctx context.Context, id task.ID) (task.Task, bool, error) {
	t, _, ok, err := m.storage.Task(ctx, id)
	return t, ok, err
}

// Blockers returns the dependencies of t that are not COMPLETED. A dependency
// that the mirror does not know is fetched.
func (m *Mirror) Blockers(ctx context.Context, t task.Task) ([]task.ID, error) {
	var failed error
	out := task.Unfinished(t, func(id task.ID) (task.Status, bool) {
		known, ok, err := m.Task(ctx, id)
		if err == nil && !ok {
			known, ok, err = m.fetch(ctx, id)
		}
		if err != nil {
			failed = err
		}
		return known.Status, ok && !known.Trashed
	})
	return out, failed
}

// fetch reads a page that no query lists. ok is false if Notion shows no such
// task; that is remembered until the next full sync.
func (m *Mirror) fetch(ctx context.Context, id task.ID) (t task.Task, ok bool, err error) {
	m.mu.Lock()
	_, known := m.absent[id]
	m.mu.Unlock()
	if known {
		return task.Task{}, false, nil
	}
	r, err := m.source.Get(ctx, id)
	var se *claim.StoreError
	switch {
	case errors.As(err, &se) && se.Kind == claim.NotFound:
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

// Sync brings the mirror up to date: with every unfinished task if full is set
// or none was listed yet, else with what was edited since the last time. A
// query that fails changes nothing. It returns what changed; a task that is no
// longer among the unfinished ones is just gone from the mirror.
func (m *Mirror) Sync(ctx context.Context, full bool) (changed []task.Change, err error) {
	m.syncing.Lock()
	defer m.syncing.Unlock()
	// Both are taken before the question is asked: what is read or written while
	// the answer is on its way is newer than the answer.
	began, readAt, since := m.source.Now(), m.nextStamp(), m.SyncedAt()
	gone := 0
	if full || since.IsZero() {
		changed, gone, err = m.syncAll(ctx, readAt)
	} else {
		changed, err = m.syncEdited(ctx, since.Add(-overlap).Truncate(time.Minute), readAt)
	}
	if err == nil {
		err = m.storage.SetMeta(ctx, metaStamp, readAt.Format(time.RFC3339Nano))
	}
	if err != nil {
		return nil, fmt.Errorf("the tasks could not be synced: %w", err)
	}
	m.mu.Lock()
	m.synced = began
	m.mu.Unlock()
	if err := m.lookUp(ctx); err != nil {
		m.log.Warn("dependencies could not be looked up", "error", err)
	}
	if len(changed)+gone > 0 {
		m.onChange()
	}
	return changed, nil
}

func (m *Mirror) syncAll(ctx context.Context, readAt time.Time) (changed []task.Change, gone int, err error) {
	tasks, err := m.source.Unfinished(ctx)
	if err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	clear(m.absent)
	m.mu.Unlock()
	changed, left, err := m.storage.ReplaceUnfinished(ctx, tasks, readAt)
	return changed, len(left), err
}

func (m *Mirror) syncEdited(ctx context.Context, since, readAt time.Time) ([]task.Change, error) {
	tasks, err := m.source.EditedSince(ctx, since)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	return m.storage.PutTasks(ctx, tasks, readAt)
}

// lookUp fetches the dependencies of open tasks that the mirror does not know:
// those finished before the mirror began.
func (m *Mirror) lookUp(ctx context.Context) error {
	tasks, err := m.storage.Tasks(ctx)
	if err != nil {
		return err
	}
	known := make(map[task.ID]bool, len(tasks))
	for _, t := range tasks {
		known[t.ID] = true
	}
	lookups := 0
	for _, t := range tasks {
		if t.Status.Finished() {
			continue
		}
		for _, id := range t.DependsOn {
			if known[id] || lookups == maxLookups {
				continue
			}
			known[id] = true
			m.mu.Lock()
			_, absent := m.absent[id]
			m.mu.Unlock()
			if absent {
				continue
			}
			lookups++
			if _, _, err := m.fetch(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
