// Package mirror keeps the local copy of the tasks database, which answers
// every question about tasks without asking Notion. It holds the tasks that are
// not finished, those finished lately, and whatever these depend on. It decides
// when to ask Notion for what has changed, and how long to wait for the answer.
//
// The mirror is a hint: a query may be stale, and a person may have edited a
// task since. Whoever acts on a task reads its page first.
package mirror

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/task"
)

// Config is what a Mirror is made of.
type Config struct {
	Source  Source
	Storage Storage
	// Keep is how long a finished task stays after its last edit.
	Keep time.Duration
	// Interval is the time between the end of a sync and the next one. SetInterval
	// changes it.
	Interval time.Duration
	// Failure says why Notion could not be reached just now; nil if it could. It
	// counts as a sync that failed.
	Failure error
	// Watcher is nobody if nil.
	Watcher Watcher
	// Notion, if set, tells when it is back: then a sync is made that failed before.
	Notion Notion
	Log    *slog.Logger
}

// Watcher is told what becomes of the mirror.
type Watcher interface {
	// Changed is called with the tasks that have changed, appeared or left. Those of one
	// sync come together, when it has ended.
	Changed(ids ...task.ID)

	// Synced is called after every sync that succeeded, before the one who
	// asked for it goes on. If it fails, the one who asked gets its error.
	Synced(context.Context, Result) error

	// Unsynced is called after every sync that failed, unless it was to read
	// the schema first and could not. again says that the one before had failed, too.
	Unsynced(ctx context.Context, again bool)
}

// Unwatched is a Watcher to whom nothing matters.
type Unwatched struct{}

func (Unwatched) Changed(...task.ID)                   {}
func (Unwatched) Synced(context.Context, Result) error { return nil }
func (Unwatched) Unsynced(context.Context, bool)       {}

// Notion is known to be there, or not.
type Notion interface {
	// Back returns a channel that is closed when Notion, having been down, is next found to
	// be back.
	Back() <-chan struct{}
}

// Mirror is safe for concurrent use; one sync runs at a time. It calls what is in
// its Config without any lock held.
type Mirror struct {
	source   Source
	storage  Storage
	keep     time.Duration
	stale    time.Duration // how long after the last sync the mirror counts as out of date
	watcher  Watcher
	notion   Notion
	log      *slog.Logger
	interval atomic.Int64

	rows  *index
	stamp atomic.Int64
	// turn is taken by the sync that is under way, and applying by whoever changes the
	// rows and the storage.
	turn, applying chan struct{}

	stop  context.CancelFunc // of the first sync; nil before Begin
	first chan struct{}      // closed when the first sync is over

	mu       sync.Mutex
	at       time.Time            // Notion's time of the last successful sync
	listed   bool                 // a full sync was made by this process
	failure  error                // of the last sync; nil if it succeeded
	done     time.Time            // when a sync last went well, and what follows from it was done, by this machine's clock
	lacked   bool                 // the schema was broken at or after the last full sync, or see Anew
	progress *Progress            // of the full sync under way
	absent   map[task.ID]struct{} // dependencies that Notion does not show us
	seen     *pages               // that wait for their turn to be taken over
}

// New returns a mirror over what storage kept of an earlier run.
func New(ctx context.Context, c Config) (*Mirror, error) {
	tasks, err := c.Storage.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		source: c.Source, storage: c.Storage, keep: c.Keep, stale: staleAfter + 2*c.Interval,
		watcher: c.Watcher, notion: c.Notion, log: c.Log,
		rows: newIndex(tasks), turn: make(chan struct{}, 1), applying: make(chan struct{}, 1), first: make(chan struct{}),
		failure: c.Failure, absent: make(map[task.ID]struct{}), seen: newPages(),
	}
	if m.watcher == nil {
		m.watcher = Unwatched{}
	}
	m.SetInterval(c.Interval)
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

// SetInterval changes Config.Interval, from the end of the one that is running. It
// must not be longer than the one in Config, by which the mirror tells whether it is
// out of date.
func (m *Mirror) SetInterval(d time.Duration) { m.interval.Store(int64(d)) }

// Tasks yields all tasks of this moment, in the order in which they are offered.
func (m *Mirror) Tasks() iter.Seq[task.Task] { return m.rows.all() }

// Len is how many tasks the mirror has.
func (m *Mirror) Len() int { return m.rows.len() }

// Task returns one task of the mirror.
func (m *Mirror) Task(id task.ID) (task.Task, bool) { return m.rows.get(id) }

// Closed says why no task may be claimed at present; nil if any may.
func (m *Mirror) Closed() error { return m.source.Broken() }
