package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// SyncInterval is how often a daemon is meant to read the register. The Grace of Policy allows
// for it.
const SyncInterval = 15 * time.Second

// Policy returns the default settings of daemons.
func Policy() claim.Policy {
	return claim.Policy{
		Timeout: 30 * time.Minute, WriteWindow: 2 * time.Second, Settle: 3 * time.Second,
		Grace: 2*SyncInterval + 13*time.Second, MaxLifetime: 24 * time.Hour,
		Review: true, // does no harm if unused
	}
}

// DaemonOptions configure a daemon.
type DaemonOptions struct {
	StoreOptions
	// Policy defaults to the function Policy.
	Policy claim.Policy
	// Ledger is a ledger that other daemons led before; nil for a new one. A daemon leads its
	// ledger from its start until another one starts on it.
	Ledger *Ledger
	// Fault, if set, wraps the claimer's store.
	Fault Fault
	// Journal, if set, wraps the claimer's ledger.
	Journal func(claim.Ledger) claim.Ledger
	// Clocks, if set, wraps the clocks of the machine.
	Clocks func(func() clock.Instant) func() clock.Instant
	// Lag, if set, draws how far a query lags behind the page of a task.
	Lag func(*rand.Rand) time.Duration
	// Board, Cases, Beside and Kept are as in claim.Config.
	Board  claim.Board
	Cases  claim.Cases
	Beside func() bool
	Kept   func(claim.ID) bool
	Log    *slog.Logger
}

// Daemon is a claimer with its store and its ledger.
type Daemon struct {
	*claim.Claimer
	Store  *Store
	Ledger *Ledger

	register *Register
	options  DaemonOptions
	life     *life
	mirror   *mirror
}

// Daemon starts a daemon on the register. It panics if the policy is invalid.
func (r *Register) Daemon(o DaemonOptions) *Daemon {
	if o.Policy == (claim.Policy{}) {
		o.Policy = Policy()
	}
	d := &Daemon{Store: r.Store(o.StoreOptions), Ledger: o.Ledger, register: r, options: o, mirror: newMirror(o)}
	if d.Ledger == nil {
		d.Ledger = NewLedger()
	}
	d.start()
	return d
}

func (d *Daemon) start() {
	store := claim.Store(d.Store)
	if d.options.Fault != nil {
		store = d.options.Fault(store)
	}
	ledger := claim.Ledger(d.Ledger.Lead())
	if d.options.Journal != nil {
		ledger = d.options.Journal(ledger)
	}
	clocks := d.Store.instant
	if d.options.Clocks != nil {
		clocks = d.options.Clocks(clocks)
	}
	d.life = new(life)
	c, err := claim.New(claim.Config{
		Store: mortalStore{store, d.life}, Ledger: mortalLedger{ledger, d.life}, Policy: d.options.Policy,
		Board: d.options.Board, Watcher: d.mirror, Clocks: clocks, Cases: d.options.Cases, Beside: d.options.Beside, Kept: d.options.Kept, Log: d.options.Log,
	})
	if err != nil {
		panic(fmt.Sprintf("claimsim: %v", err))
	}
	d.Claimer = c
}

// Restart stops the daemon in an orderly way, and starts it again on the same ledger and store.
func (d *Daemon) Restart(ctx context.Context) error {
	d.Close()
	d.start()
	return d.Recover(ctx)
}

// Kill ends the daemon in the middle of its work. Requests already sent may still take effect;
// it sends and records nothing more.
func (d *Daemon) Kill() {
	d.life.over.Store(true)
	d.Close()
}

// Successor starts the daemon again after Kill, on the same ledger and store.
func (d *Daemon) Successor(ctx context.Context) (*Daemon, error) {
	next := new(*d)
	next.start()
	return next, next.Recover(ctx)
}

// Heir starts another daemon, on its own machine, that leads the same ledger from then on. The
// former leader may still be at work without knowing.
func (d *Daemon) Heir(ctx context.Context) (*Daemon, error) {
	o := d.options
	o.Ledger = d.Ledger
	o.Seed++
	next := d.register.Daemon(o)
	return next, next.Recover(ctx)
}

// Sync does what a daemon does at every sync interval: it reads all tasks, guards the claims
// held here, takes the steps that are owed, and renews the leases that are due.
func (d *Daemon) Sync(ctx context.Context) error {
	d.Store.hear() // as the answer to a query says
	var errs []error
	tasks := d.mirror.take(d.register)
	for _, t := range tasks {
		_, err := d.Sighted(ctx, t.Token)
		errs = append(errs, err)
	}
	for _, c := range d.Claims("") {
		if c.State != claim.Held {
			continue
		}
		var seen *task.Task
		if t, ok := d.mirror.task(c.Task.ID); ok {
			seen = &t
		}
		errs = append(errs, d.Guard(ctx, c.ID, seen))
	}
	for _, t := range tasks {
		_, err := d.Tidy(ctx, t)
		errs = append(errs, err)
	}
	errs = append(errs, d.Repay(ctx, d.mirror.task))
	_, err := d.RunDue(ctx)
	return errors.Join(append(errs, err, d.KeepAlive(ctx))...)
}

// Next tries the tasks that look ready in the mirror, in order, and claims the first that it
// can get. The error is that of the last attempt, or ErrNothing.
func (d *Daemon) Next(ctx context.Context, r claim.Request) (claim.Hold, error) {
	last := ErrNothing
	for _, t := range d.mirror.tasks() {
		if claim.Decide(t, r.Agent, nil, d.Store.Now(), d.Policy()).Code != "" {
			continue
		}
		if _, taken := d.On(t.ID); taken {
			continue
		}
		one := r
		one.Task, one.Quiet = t, true
		cl, err := d.Claim(ctx, one)
		if err == nil || ctx.Err() != nil {
			return cl, err
		}
		last = err
		r.ID = "" // an attempt's own
	}
	return claim.Hold{}, last
}

// ErrNothing is returned by Next if no task looks ready.
var ErrNothing = errors.New("no task looks ready")

// SweepAll sweeps the tasks whose claims look stale in the mirror.
func (d *Daemon) SweepAll(ctx context.Context) error {
	var errs []error
	for _, t := range d.mirror.tasks() {
		if t.Status == task.InProgress && d.Policy().Stale(t, d.Store.Now()) {
			_, _, err := d.Sweep(ctx, t.ID)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// mirror is a daemon's copy of the tasks: the rows of its last query, which may have lagged,
// and the pages that it read or wrote since.
type mirror struct {
	claim.Unwatched

	lag func(*rand.Rand) time.Duration

	mu   sync.Mutex
	rand *rand.Rand
	rows map[task.ID]task.Task
}

func newMirror(o DaemonOptions) *mirror {
	h := fnv.New64a()
	h.Write([]byte(o.Name))
	m := &mirror{lag: o.Lag, rand: rand.New(rand.NewPCG(o.Seed, h.Sum64())), rows: make(map[task.ID]task.Task)}
	if m.lag == nil {
		m.lag = func(*rand.Rand) time.Duration { return 0 }
	}
	return m
}

// take queries the register and returns the rows.
func (m *mirror) take(r *Register) []task.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := r.Query(func(task.ID) time.Duration { return m.lag(m.rand) })
	clear(m.rows)
	for _, t := range rows {
		m.rows[t.ID] = t
	}
	return rows
}

// Observe stores a page that was read or written.
func (m *mirror) Observe(r claim.Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[r.Task.ID] = r.Task; r.Task.Trashed {
		delete(m.rows, r.Task.ID)
	}
}

func (m *mirror) task(id task.ID) (task.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.rows[id]
	return t, ok
}

// tasks returns all tasks in the order of their ids.
func (m *mirror) tasks() []task.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]task.Task, 0, len(m.rows))
	for _, t := range m.rows {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b task.Task) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

var errKilled = errors.New("the daemon was killed")

// life is one run of a daemon, until it is killed.
type life struct{ over atomic.Bool }

func (l *life) err() error {
	if l.over.Load() {
		return errKilled
	}
	return nil
}

// mortalLedger is the ledger of one run of a daemon. It does nothing after the end of the run.
type mortalLedger struct {
	claim.Ledger
	*life
}

func (l mortalLedger) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (int64, *claim.Refusal, error) {
	if err := l.err(); err != nil {
		return 0, nil, err
	}
	return l.Ledger.Reserve(ctx, c, now, limit)
}

func (l mortalLedger) Save(ctx context.Context, ch claim.Change) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Ledger.Save(ctx, ch)
}

// mortalStore is the store of one run of a daemon. It sends nothing after the end of the run;
// requests sent before go on.
type mortalStore struct {
	claim.Store
	*life
}

func (s mortalStore) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if err := s.err(); err != nil {
		return claim.Reading{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s mortalStore) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if err := s.err(); err != nil {
		return claim.Reading{}, err
	}
	return s.Store.Write(ctx, id, w)
}
