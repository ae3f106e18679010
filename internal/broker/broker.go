package broker

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Mirror is the local copy of the tasks database.
type Mirror interface {
	// Tasks yields all tasks, in the order in which they are offered.
	Tasks() iter.Seq[task.Task]
	Task(id task.ID) (task.Task, bool)
	// SyncedAt is Notion's time of the last sync; zero if there was none.
	SyncedAt() time.Time
}

// Journal is the local record.
type Journal interface {
	claim.Ledger
	// TaskClaims returns the claims on a task, ended ones too, newest first.
	TaskClaims(ctx context.Context, id task.ID) ([]claim.Claim, error)
	// Log returns the events that f chooses, oldest first.
	Log(ctx context.Context, f api.LogFilter) ([]claim.Event, error)
	// BindRequest notes for which claim the request with that key was made.
	BindRequest(ctx context.Context, key string, id claim.ID) error
}

// Agent is a name that may be used, and who may use it.
type Agent struct {
	Name string
	// UIDs are the users who may go by the name; none means any.
	UIDs []int
}

// Config is what a Broker is made of.
type Config struct {
	Claimer *claim.Claimer
	Mirror  Mirror
	Journal Journal
	Feed    Feed
	// Now is Notion's time.
	Now func() time.Time
	// Sync brings the mirror up to date, with the whole board if full is set.
	Sync func(ctx context.Context, full bool) (api.Sync, error)
	// StaleAfter is how long after a sync the mirror counts as out of date. It does
	// so at once when a sync failed, as Failing tells.
	StaleAfter time.Duration
	Failing    func() bool
	// Closed says why no task may be claimed at present; nil if any may. Nor is one
	// swept then: when a lease ends may not be known.
	Closed func() error
	// Agents are the names allowed; none means any name.
	Agents []Agent
	// Report fills in the parts of the status that the broker does not know.
	Report func(context.Context, *api.Status) error
	Log    *slog.Logger
}

// Broker is safe for concurrent use.
type Broker struct {
	claimer *claim.Claimer
	mirror  Mirror
	journal Journal
	feed    Feed
	now     func() time.Time
	report  func(context.Context, *api.Status) error
	sync    func(ctx context.Context, full bool) (api.Sync, error)
	stale   time.Duration
	failing func() bool
	shut    func() error // see Config.Closed
	log     *slog.Logger
	ahead   atomic.Int64 // see Local

	changed signal
	told    signal
	closed  chan struct{}
	close   func()

	mu     sync.Mutex
	picked map[task.ID]bool // chosen by a `next` that is under way
	agents []Agent
}

// New returns a broker.
func New(c Config) *Broker {
	closed := make(chan struct{})
	return &Broker{
		claimer: c.Claimer, mirror: c.Mirror, journal: c.Journal, feed: c.Feed, now: c.Now,
		agents: c.Agents, report: c.Report, sync: c.Sync, stale: c.StaleAfter, failing: c.Failing, shut: c.Closed, log: c.Log,
		picked: make(map[task.ID]bool),
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

// Close ends the waiting, for tasks and for events: whoever waits for a task is
// denied what it waits for.
func (b *Broker) Close() { b.close() }

// Changed wakes those who wait for a task: something about one has changed.
func (b *Broker) Changed() { b.changed.fire() }

// Sync brings the mirror up to date, with the whole board if full is set.
func (b *Broker) Sync(ctx context.Context, full bool) (api.Sync, error) {
	done, err := b.sync(ctx, full)
	for range b.mirror.Tasks() {
		done.Tasks++
	}
	done.Age = b.age()
	return done, err
}

// age says how old the mirror is.
func (b *Broker) age() api.Age {
	synced := b.mirror.SyncedAt()
	if synced.IsZero() {
		return api.NewAge(synced, 0, true)
	}
	old := max(0, b.now().Sub(synced))
	return api.NewAge(synced, old, old > b.stale || b.failing())
}

// Log returns entries of the local record, oldest first.
func (b *Broker) Log(ctx context.Context, f api.LogFilter) ([]claim.Event, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	return b.journal.Log(ctx, f)
}

// Status returns the state of the daemon.
func (b *Broker) Status(ctx context.Context) (api.Status, error) {
	board := b.board()
	p := b.claimer.Policy()
	s := api.Status{
		Mirror:   api.MirrorStatus{Age: board.age},
		Policy:   policyStatus(p),
		Warnings: []string{},
	}
	for t := range board.tasks {
		s.Mirror.Tasks++
		if board.ready(t) {
			s.Mirror.Ready++
		}
	}
	for _, c := range b.claimer.Claims("") {
		if c.State == claim.Held {
			s.ClaimsHeld++
		}
	}
	err := b.report(ctx, &s)
	return s, err
}

func policyStatus(p claim.Policy) api.PolicyStatus {
	override := "any"
	if p.OpenOnly {
		override = "open_only"
	}
	return api.PolicyStatus{
		TimeoutSeconds: p.Timeout.Seconds(), WriteWindowSeconds: p.WriteWindow.Seconds(),
		SettleSeconds: p.Settle.Seconds(), Override: override, Exclusive: p.Exclusive,
	}
}

// signal wakes everybody who waits for the next change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the next fire.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
