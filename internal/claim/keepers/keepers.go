// Package keepers keeps claims alive for agents that forget to. A process or a connection can be
// named as a claim's keeper. While it lives, the claim is renewed in the agent's name. Once the
// last keeper is gone, the claim is released. A keeper is stored before its claim is asked for.
// Heartbeats cost no requests of their own.
package keepers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

// Keeper is a process or a connection that keeps a claim alive.
type Keeper struct {
	// Process is the process; zero for a connection.
	Process Process
	// Grace is how long the claim lasts after its last keeper is gone, so that another can
	// take the keeper's place.
	Grace time.Duration
}

// Storage stores keepers, so that they survive the daemon. Its methods are safe for concurrent
// use.
type Storage interface {
	// Keepers returns all stored keepers, by claim.
	Keepers(ctx context.Context) (map[claim.ID][]Keeper, error)
	// SetKeepers replaces the keepers of a claim; with none it deletes them.
	SetKeepers(ctx context.Context, id claim.ID, keepers []Keeper) error
}

// Claims has the operations on claims. Its methods are safe for concurrent use.
type Claims interface {
	Find(ctx context.Context, id claim.ID) (claim.Hold, error)
	Renew(ctx context.Context, id claim.ID) (claim.Hold, error)
	Finish(ctx context.Context, id claim.ID, f claim.Finish) (claim.Hold, error)
}

// Config configures a Watch.
type Config struct {
	Storage Storage
	Claims  Claims
	// Processes is Here if nil.
	Processes Processes
	Log       *slog.Logger
}

// Processes knows which processes are alive.
type Processes interface {
	// Life reports whether a process is alive. A new process under the same number does not
	// count.
	Life(Process) Life
}

// Here knows the processes of this machine.
type Here struct{}

func (Here) Life(p Process) Life { return LifeOf(p) }

// pollEvery is how often the lives of processes are checked.
const pollEvery = time.Second

// Watch looks after the claims that have keepers. It is safe for concurrent use.
type Watch struct {
	config Config
	loop   *clock.Loop

	mu     sync.Mutex
	claims map[claim.ID]*watched
}

// watched is a claim that has keepers, or had them.
type watched struct {
	// granted is set once there is a claim; until then it is being made.
	granted bool
	stored  []Keeper
	// connections is the number of open connections.
	connections int
	// left is when the last keeper was found gone, zero while there is one. grace is how long
	// the claim lasts from then on.
	grace time.Duration
	left  time.Time
	why   string
	beat  time.Time // when the next renewal is due
}

// New returns a watch over the claims with stored keepers. A connection has to come back within
// its grace.
func New(ctx context.Context, c Config) (*Watch, error) {
	if c.Processes == nil {
		c.Processes = Here{}
	}
	w := &Watch{config: c, claims: make(map[claim.ID]*watched)}
	w.loop = clock.NewLoop(0, w.turn)
	stored, err := c.Storage.Keepers(ctx)
	if err != nil {
		return nil, err
	}
	for id, keepers := range stored {
		w.claims[id] = &watched{granted: true, stored: keepers}
	}
	return w, nil
}

// Lives reports whether a process is not known to be gone.
func (w *Watch) Lives(p Process) bool { return w.config.Processes.Life(p) != Gone }

// Keep makes a process a keeper of a claim. The claim may still be in the making: then Granted or
// Forget has to follow.
func (w *Watch) Keep(ctx context.Context, id claim.ID, k Keeper) error {
	return w.change(ctx, id, func(c *watched) {
		c.stored = slices.DeleteFunc(c.stored, func(other Keeper) bool { return other.Process == k.Process })
		c.stored = append(c.stored, k)
	})
}

// Granted says that a claim given to Keep was granted.
func (w *Watch) Granted(id claim.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.claims[id]; ok {
		c.granted = true
	}
	w.loop.Wake()
}

// Forget ends the watch over a claim.
func (w *Watch) Forget(ctx context.Context, id claim.ID) error {
	w.mu.Lock()
	_, known := w.claims[id]
	delete(w.claims, id)
	w.mu.Unlock()
	if !known {
		return nil
	}
	return w.config.Storage.SetKeepers(ctx, id, nil)
}

// Connect makes a connection a keeper of a claim, until leave is called.
func (w *Watch) Connect(ctx context.Context, id claim.ID, grace time.Duration) (leave func(), err error) {
	err = w.change(ctx, id, func(c *watched) {
		// One stored keeper stands for all connections: after a restart, any of them will do.
		c.stored = slices.DeleteFunc(c.stored, func(k Keeper) bool { return k.Process == Process{} })
		c.stored = append(c.stored, Keeper{Grace: grace})
		c.granted = true
		c.connections++
	})
	if err != nil {
		return nil, err
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c, ok := w.claims[id]; ok {
			c.connections--
		}
		w.loop.Wake()
	}, nil
}

// Keeps reports whether a claim has keepers. When the last is gone, the watch releases the claim.
func (w *Watch) Keeps(id claim.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.claims[id]
	return ok && len(c.stored) > 0
}

// KeepersGone reports whether a claim had keepers, and all of them are gone.
func (w *Watch) KeepersGone(id claim.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.claims[id]
	if !ok || !c.granted || len(c.stored) == 0 {
		return false
	}
	life, _, _ := w.inspect(c)
	return life == Gone
}

// change changes the keepers of a claim, and stores them.
func (w *Watch) change(ctx context.Context, id claim.ID, change func(*watched)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := watched{}
	if c, ok := w.claims[id]; ok {
		next = *c
		next.stored = slices.Clone(c.stored)
	}
	change(&next)
	if err := w.config.Storage.SetKeepers(ctx, id, next.stored); err != nil {
		return err
	}
	next.left, next.beat = time.Time{}, time.Time{}
	w.claims[id] = &next
	w.loop.Wake()
	return nil
}

// Run watches the claims until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.loop.Run(ctx) }

// turn is one turn of the loop. It returns the wait until the next.
func (w *Watch) turn(ctx context.Context) time.Duration {
	if w.RunOnce(ctx) {
		return pollEvery
	}
	return clock.UntilWoken // by whoever adds a keeper
}

// RunOnce checks every keeper, makes the renewals that are due, and releases the claims that have
// been without a keeper for their grace. It reports whether there are claims to watch.
func (w *Watch) RunOnce(ctx context.Context) bool {
	w.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.claims))
	w.mu.Unlock()
	for _, id := range ids {
		if err := w.lookAfter(ctx, id); err != nil && ctx.Err() == nil {
			w.config.Log.Warn("a claim could not be looked after; it is tried again", claim.AttrClaim, id, claim.AttrError, err)
		}
	}
	return len(ids) > 0
}

// lookAfter checks one claim, and renews or releases it if that is due.
func (w *Watch) lookAfter(ctx context.Context, id claim.ID) error {
	now := time.Now()
	over, beat, why := w.due(id, now)
	switch {
	case over:
		_, err := w.config.Claims.Finish(ctx, id, claim.Finish{As: claim.EndReleased, Summary: why, Died: true})
		if err != nil && !gone(err) {
			return err
		}
		return w.Forget(ctx, id)
	case !beat:
		return nil
	}
	cl, err := w.config.Claims.Find(ctx, id)
	if err == nil && cl.State != claim.Held {
		return w.Forget(ctx, id) // its agent is done
	}
	if err == nil {
		w.beaten(id, now.Add(pulse(cl.Patience())))
		_, err = w.config.Claims.Renew(ctx, id)
	}
	if gone(err) {
		return w.Forget(ctx, id)
	}
	return err
}

// due reports whether the claim has to be released now, and why, or whether a renewal is due.
func (w *Watch) due(id claim.ID, now time.Time) (over, beat bool, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.claims[id]
	if !ok || !c.granted {
		return false, false, ""
	}
	life, grace, who := w.inspect(c)
	if life != Gone {
		c.left = time.Time{}
		// An unheard keeper gets no renewals: if its machine is gone, the claim ends with its
		// lease.
		// The monotonic clock stands still while the machine sleeps, and the wall clock may be set back.
		beat := !now.Before(c.beat) || !now.Round(0).Before(c.beat)
		return false, life == Living && beat, ""
	}
	if c.left.IsZero() {
		c.left, c.grace, c.why = now, grace, fmt.Sprintf("%s, which kept the claim alive, is gone", who)
	}
	return now.Sub(c.left) >= c.grace, false, c.why
}

// inspect checks the keepers of a claim. It returns the best of their lives, the longest grace, and
// the name of one that is gone. w.mu is locked.
func (w *Watch) inspect(c *watched) (best Life, grace time.Duration, who string) {
	best, who = Gone, "nobody"
	if c.connections > 0 {
		best = Living
	}
	for _, k := range c.stored {
		grace = max(grace, k.Grace)
		if k.Process == (Process{}) {
			who = "the connection"
			continue
		}
		switch life := w.config.Processes.Life(k.Process); {
		case life == Gone:
			who = fmt.Sprintf("process %d", k.Process.ID)
		case best != Living:
			best = life
		}
	}
	return best, grace, who
}

func (w *Watch) beaten(id claim.ID, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.claims[id]; ok {
		c.beat = next
	}
}

// pulse returns the time between renewals: short enough that leases are written again at half their
// length. A renewal costs no request by itself.
func pulse(lease time.Duration) time.Duration { return min(lease/4, time.Minute) }

// gone reports whether an error says that the claim is over or unknown.
func gone(err error) bool {
	_, isLost := errors.AsType[*claim.Lost](err)
	return isLost || errors.Is(err, claim.ErrUnknownClaim)
}
