// Package mirror keeps the local copy of the tasks database, which answers
// every question about tasks without asking Notion. It holds the tasks that are
// not finished, those finished lately, and whatever these depend on.
//
// The mirror is a hint: a query may be stale, and a person may have edited a
// task since. Whoever acts on a task reads its page first.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Source is the tasks database in Notion.
type Source interface {
	// List lists all tasks that are neither COMPLETED nor CANCELLED, and the
	// finished ones edited at since or later. It tells read, now and then, how
	// many it has read so far.
	List(ctx context.Context, since time.Time, read func(n int)) ([]task.Task, error)
	// EditedSince lists the tasks edited at t or later, finished ones too, and all
	// that are IN_PROGRESS with a claim token.
	EditedSince(ctx context.Context, t time.Time) ([]task.Task, error)
	// Get reads one page; a *claim.StoreError of kind NotFound says there is none.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time
}

// Storage keeps the rows across restarts.
type Storage interface {
	Tasks(ctx context.Context) ([]task.Task, error)
	// PutTasks adds tasks, or replaces those of the same id.
	PutTasks(ctx context.Context, tasks []task.Task) error
	DeleteTasks(ctx context.Context, ids []task.ID) error
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// metaSynced is the key under which the time of the last sync is kept.
const metaSynced = "mirror.synced"

// Config is what a Mirror is made of.
type Config struct {
	Source  Source
	Storage Storage
	// Keep is how long a finished task stays after its last edit.
	Keep time.Duration
	// OnChange is called, without any lock held, whenever a task changed.
	OnChange func()
	Log      *slog.Logger
}

// Mirror is safe for concurrent use; one sync runs at a time.
type Mirror struct {
	source   Source
	storage  Storage
	keep     time.Duration
	onChange func()
	log      *slog.Logger

	rows  *index
	stamp atomic.Int64
	// turn is held by the sync that is under way.
	turn chan struct{}
	// applying is held while the rows and the storage change.
	applying sync.Mutex

	mu       sync.Mutex
	synced   time.Time            // Notion's time of the last successful sync
	listed   bool                 // a full sync was made by this process
	progress *Progress            // of the full sync under way
	absent   map[task.ID]struct{} // dependencies that Notion does not show us
}

// New returns a mirror over what storage kept of an earlier run.
func New(ctx context.Context, c Config) (*Mirror, error) {
	tasks, err := c.Storage.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		source: c.Source, storage: c.Storage, keep: c.Keep, onChange: c.OnChange, log: c.Log,
		rows: newIndex(tasks), turn: make(chan struct{}, 1), absent: make(map[task.ID]struct{}),
	}
	last, err := c.Storage.Meta(ctx, metaSynced)
	if err != nil {
		return nil, err
	}
	if last != "" {
		if m.synced, err = time.Parse(time.RFC3339Nano, last); err != nil {
			return nil, fmt.Errorf("the time of the mirror's last sync: %w", err)
		}
	}
	return m, nil
}

// next begins a reading.
func (m *Mirror) next() stamp { return stamp(m.stamp.Add(1)) }

// Observe takes over a page that was read or written just now.
func (m *Mirror) Observe(r claim.Reading) {
	changed, err := m.apply(context.Background(), []task.Task{r.Task}, m.next(), true)
	if err != nil {
		m.log.Warn("the mirror could not take over a page", "task", r.Task.ID, "error", err)
	} else if len(changed) > 0 {
		m.onChange()
	}
}

// apply takes over tasks read at s, and returns the changes that this makes.
func (m *Mirror) apply(ctx context.Context, tasks []task.Task, s stamp, pages bool) ([]task.Change, error) {
	m.applying.Lock()
	defer m.applying.Unlock()
	changed := m.rows.compare(tasks, s, pages)
	if len(changed) == 0 {
		return nil, nil
	}
	after := make([]task.Task, len(changed))
	for i, c := range changed {
		after[i] = c.After
	}
	if err := m.storage.PutTasks(ctx, after); err != nil {
		return nil, err
	}
	m.rows.put(changed, s, pages)
	return changed, nil
}

// SyncedAt returns Notion's time of the last successful sync, of an earlier run
// perhaps; zero if there never was one.
func (m *Mirror) SyncedAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Tasks yields all tasks of this moment, in the order in which they are offered.
func (m *Mirror) Tasks() iter.Seq[task.Task] { return m.rows.all() }

// Len is how many tasks the mirror has.
func (m *Mirror) Len() int { return m.rows.len() }

// Task returns one task of the mirror.
func (m *Mirror) Task(id task.ID) (task.Task, bool) { return m.rows.get(id) }

// Blockers returns the dependencies of t that are not COMPLETED. A dependency
// that the mirror does not know is fetched.
func (m *Mirror) Blockers(ctx context.Context, t task.Task) ([]task.ID, error) {
	var failed error
	out := task.Unfinished(t, func(id task.ID) (task.Status, bool) {
		known, ok := m.Task(id)
		if !ok {
			var err error
			if known, ok, err = m.fetch(ctx, id); err != nil {
				failed = err
			}
		}
		return known.Status, ok && !known.Trashed
	})
	return out, failed
}

// fetch reads a page that no query lists. ok is false if Notion shows no such
// task; that is remembered until the next full sync.
func (m *Mirror) fetch(ctx context.Context, id task.ID) (t task.Task, ok bool, err error) {
	if m.isAbsent(id) {
		return task.Task{}, false, nil
	}
	r, err := m.source.Get(ctx, id)
	switch {
	case notFound(err):
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

func (m *Mirror) isAbsent(id task.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, absent := m.absent[id]
	return absent
}

func notFound(err error) bool {
	var se *claim.StoreError
	return errors.As(err, &se) && se.Kind == claim.NotFound
}
