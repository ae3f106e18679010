// Package mirror keeps the local copy of the tasks database, which answers questions
// about tasks without a request to Notion. It has the unfinished tasks, the recently
// finished ones, and the tasks that these depend on. It decides when to ask Notion for
// changes, and how long to wait for the answer.
//
// The mirror is a hint: queries lag, and a person may have edited a task since. So read the page of
// a task before acting on it. A query that fails changes nothing, and nothing is shown that is not
// stored.
package mirror

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// Config configures a Mirror.
type Config struct {
	Source  Source
	Storage Storage
	// Keep is how long a finished task stays after its last edit.
	Keep time.Duration
	// Scoped says that Source.List may leave out tasks that are not for agents.
	Scoped bool
	// Interval is the time between the end of a sync and the next one. SetPace
	// changes it, and Waiting.
	Interval time.Duration
	// Waiting replaces Interval, if shorter, while somebody waits, see Await; zero means never.
	Waiting time.Duration
	// Idle reports whether nothing depends on quick syncs, apart from callers; nil means that
	// something may.
	Idle func() bool
	// Failure is why Notion could not be reached just now; nil if it could. It counts
	// as a failed sync.
	Failure error
	// Watcher may be nil.
	Watcher Watcher
	// Notion, if set, reports when Notion is back: then a failed sync is repeated.
	Notion Notion
	Log    *slog.Logger
}

// Watcher watches a mirror.
type Watcher interface {
	// Changed is called with the tasks that have changed, appeared or left, or have moved in
	// the order. Those of one sync come together, at its end.
	Changed(ids ...task.ID)

	// Synced is called after every successful sync, before its caller goes on. If it
	// fails, the caller gets its error.
	Synced(context.Context, Result) error

	// Unsynced is called after every failed sync, except one that failed to read the
	// schema first. again is set if the sync before had failed, too.
	Unsynced(ctx context.Context, again bool)
}

// Unwatched is a Watcher that does nothing.
type Unwatched struct{}

func (Unwatched) Changed(...task.ID)                   {}
func (Unwatched) Synced(context.Context, Result) error { return nil }
func (Unwatched) Unsynced(context.Context, bool)       {}

// Notion reports when Notion can be reached again.
type Notion interface {
	// Back returns a channel that is closed the next time Notion is back after it was down.
	Back() <-chan struct{}
}

// Mirror is safe for concurrent use; one sync runs at a time. It calls the members of its
// Config without any lock.
type Mirror struct {
	source   Source
	storage  Storage
	keep     time.Duration
	scoped   bool
	stale    time.Duration // the age of the last sync from which on the mirror counts as out of date
	watcher  Watcher
	notion   Notion
	log      *slog.Logger
	interval atomic.Int64
	waiting  atomic.Int64
	idle     func() bool
	pace     pace
	share    share

	rows  *index
	stamp atomic.Int64
	// turn is the lock of the current sync, and applying that of a change to the rows and
	// the storage.
	turn, applying chan struct{}
	// kept is the last time stored under metaSynced; who has the turn may use it.
	kept time.Time

	stop  context.CancelFunc // of the first sync; nil before Begin
	first chan struct{}      // closed when the first sync is over

	mu       sync.Mutex
	at       time.Time            // Notion's time of the last successful sync
	listed   bool                 // a full sync was made by this process
	failure  error                // of the last sync; nil if it succeeded
	cost     int                  // the requests that the last sync of what was edited took
	done     time.Time            // when the last sync succeeded, with Watcher.Synced, by this machine's clock
	lacked   bool                 // the schema was broken since the last full sync, or Anew was called
	progress *Progress            // of the full sync under way
	absent   map[task.ID]struct{} // dependencies that Notion does not show us
	seen     *pages               // observed pages that wait to be stored
}

// New returns a mirror with what storage has from an earlier run.
func New(ctx context.Context, c Config) (*Mirror, error) {
	tasks, err := c.Storage.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		source: c.Source, storage: c.Storage, keep: c.Keep, scoped: c.Scoped, stale: staleAfter + 2*c.Interval,
		watcher: c.Watcher, notion: c.Notion, log: c.Log, idle: c.Idle,
		pace: pace{used: time.Now(), quicker: clock.NewBell()},
		rows: newIndex(tasks), turn: make(chan struct{}, 1), applying: make(chan struct{}, 1), first: make(chan struct{}),
		failure: c.Failure, absent: make(map[task.ID]struct{}), seen: newPages(),
	}
	if m.watcher == nil {
		m.watcher = Unwatched{}
	}
	m.SetPace(c.Interval, c.Waiting)
	last, err := c.Storage.Meta(ctx, metaSynced)
	if err != nil {
		return nil, err
	}
	if last != "" {
		if m.at, err = time.Parse(time.RFC3339Nano, last); err != nil {
			return nil, fmt.Errorf("the time of the mirror's last sync: %w", err)
		}
	}
	return m, nil
}

// SetPace changes Config.Interval and Config.Waiting, from the end of the current wait on. The
// interval must not be longer than the one in Config, which decides when the mirror counts as out of
// date.
func (m *Mirror) SetPace(interval, waiting time.Duration) {
	m.interval.Store(int64(interval))
	m.waiting.Store(int64(waiting))
}

// Tasks yields all current tasks, in ready order (task.Before).
func (m *Mirror) Tasks() iter.Seq[task.Task] { return m.rows.all() }

// Len returns the number of tasks in the mirror.
func (m *Mirror) Len() int { return m.rows.len() }

// Task returns a task of the mirror; false if it does not have it.
func (m *Mirror) Task(id task.ID) (task.Task, bool) { return m.rows.get(id) }

// Closed returns why no task may be claimed at present; nil if tasks may be claimed.
func (m *Mirror) Closed() error { return m.source.Broken() }
