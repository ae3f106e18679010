package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
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
	c.Source.RecallTitles(tasks)
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

// The mirror counts as out of date staleAfter and two intervals after the last sync: a busy
// daemon syncs late.
const staleAfter = 2 * time.Minute

// Standing says how current the mirror is.
type Standing struct {
	// SyncedAt is Notion's time of the last successful sync, perhaps of an earlier run; zero
	// if there was none.
	SyncedAt time.Time
	// Old is the time since then.
	Old time.Duration
	// Stale is set when the last sync failed or is overdue, or the board is being
	// read for the first time.
	Stale bool
	// Failure is why the last sync failed; nil if it did not.
	Failure error
	// Progress is the progress of the full sync under way; nil if there is none.
	Progress *Progress
}

// Progress is the progress of a full sync.
type Progress struct {
	// Read is the number of rows read.
	Read int
	// Of is the expected number, the same as last time; zero if that is not known.
	Of int
}

// Standing returns how current the mirror is.
func (m *Mirror) Standing() Standing {
	now := m.source.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Standing{SyncedAt: m.at, Failure: m.failure}
	if !m.at.IsZero() {
		s.Old = max(0, now.Sub(m.at))
	}
	s.Stale = m.at.IsZero() || s.Old > m.stale || m.failure != nil
	if m.progress != nil {
		p := *m.progress
		s.Progress = &p
	}
	return s
}

// Listed reports whether this process has read the whole board.
func (m *Mirror) Listed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}

// failing reports whether the last sync failed.
func (m *Mirror) failing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure != nil
}

// note stores how a sync ended. It logs when syncs begin to fail, and when they succeed again.
func (m *Mirror) note(err error) {
	if errors.Is(err, context.Canceled) {
		return // the daemon stops, or the caller has gone
	}
	m.mu.Lock()
	before := m.failure
	m.failure = err
	m.mu.Unlock()
	switch {
	case err != nil && before == nil:
		m.log.Warn("sync failed; the tasks are as of the last one", claim.AttrError, err)
	case err == nil && before != nil:
		m.log.Info("sync works again")
	}
}

// setProgress sets the progress of the full sync under way; nil when it is over.
func (m *Mirror) setProgress(p *Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = p
}

// pages are the pages observed while the storage was busy with earlier ones. They are
// stored together.
type pages struct {
	last  map[task.ID]reading
	taken bool // guarded by Mirror.applying
}

func newPages() *pages { return &pages{last: make(map[task.ID]reading)} }

// Observe stores a page that was read or written just now. When it returns, the page is in
// the storage. If storing fails, it logs the error.
func (m *Mirror) Observe(r claim.Reading) {
	m.mu.Lock()
	mine := m.seen
	mine.last[r.Task.ID] = reading{Task: r.Task, at: m.next(), page: true}
	m.mu.Unlock()
	m.tell(m.take(mine))
}

// tell tells the watcher of tasks that have changed, and of those that moved in the order because
// others wait for them now, or no longer do.
func (m *Mirror) tell(changed []task.ID) {
	if all := append(changed, m.rows.takeMoved()...); len(all) > 0 {
		m.watcher.Changed(all...)
	}
}

// take stores pages, unless another caller that observed one of them did so meanwhile. It
// returns the tasks that changed.
func (m *Mirror) take(p *pages) []task.ID {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	if p.taken {
		return nil
	}
	m.mu.Lock()
	m.seen = newPages()
	m.mu.Unlock()
	p.taken = true
	read := make([]reading, 0, len(p.last))
	for _, r := range p.last {
		read = append(read, r)
	}
	changed, err := m.put(context.Background(), read)
	if err != nil {
		for id := range p.last {
			m.log.Warn("the mirror could not take over a page", claim.AttrTask, id, claim.AttrError, err)
		}
	}
	return ids(changed)
}

// apply stores readings, and returns the tasks that are new or different.
func (m *Mirror) apply(ctx context.Context, read ...reading) ([]task.Task, error) {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	return m.put(ctx, read)
}

// put is apply for a caller that has locked m.applying.
func (m *Mirror) put(ctx context.Context, read []reading) ([]task.Task, error) {
	for i := range read { // titles may have been learned since
		read[i].Task = m.source.Titled(read[i].Task)
	}
	news := m.rows.compare(read)
	if len(news) == 0 {
		return nil, nil
	}
	tasks := make([]task.Task, len(news))
	for i, r := range news {
		tasks[i] = r.Task
	}
	if err := m.storage.PutTasks(ctx, tasks); err != nil {
		return nil, err
	}
	m.rows.put(news)
	return tasks, nil
}

// ids returns the ids of tasks.
func ids(tasks []task.Task) []task.ID {
	out := make([]task.ID, len(tasks))
	for i, t := range tasks {
		out[i] = t.ID
	}
	return out
}

// remove removes those of the tasks that were not read at s or later.
func (m *Mirror) remove(ctx context.Context, remove []task.ID, s stamp, result *Result) error {
	m.applying <- struct{}{}
	defer func() { <-m.applying }()
	// One may have been read meanwhile.
	remove = slices.DeleteFunc(remove, func(id task.ID) bool { return m.rows.readSince(id, s) })
	if len(remove) == 0 {
		return nil
	}
	if err := m.storage.DeleteTasks(ctx, remove); err != nil {
		return err
	}
	m.rows.remove(remove)
	result.removed = append(result.removed, remove...)
	return nil
}

// next returns the stamp of a reading that begins now.
func (m *Mirror) next() stamp { return stamp(m.stamp.Add(1)) }

// pace knows who waits for what people do in Notion.
type pace struct {
	mu      sync.Mutex
	waits   int           // the callers that wait now
	left    time.Time     // when one of them last left
	used    time.Time     // when an agent was last there
	waking  chan struct{} // closed when the sync of the first agent after an hour is over; nil for none
	quicker clock.Bell    // rung when a sync may be due earlier
}

// lookBurst is how many requests because of events may come at once.
const lookBurst = 5

// share is the part of Notion's rate that quick syncs and looks have together: on average one
// request in a time that Source.Room gives. It only counts: whoever is not in a hurry need not ask.
type share struct {
	mu   sync.Mutex
	used time.Time // until when the share is used up
}

// spend counts n requests that were sent.
func (s *share) spend(n int, apart time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if least := time.Now().Add(-lookBurst * apart); s.used.Before(least) {
		s.used = least
	}
	s.used = s.used.Add(time.Duration(n) * apart)
}

// wait returns how long it is until one more request is within the share; zero or less for now.
func (s *share) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.used)
}
