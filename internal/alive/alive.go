// Package alive keeps claims alive for agents that forget to: as long as a process or
// a connection lives that was named as a claim's keeper, signs of life are given in the
// agent's name, and once the last of them is gone, the claim is given back.
package alive

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
	"dibs/internal/clock"
)

// Keeper is what keeps a claim alive.
type Keeper struct {
	// Process is a process; zero for a connection.
	Process Process
	// Grace is how long the claim is kept after its last keeper is gone, for another
	// to take the keeper's place.
	Grace time.Duration
}

// Storage is where keepers survive the daemon. Its methods are safe for concurrent use.
type Storage interface {
	// Keepers returns all that are stored.
	Keepers(ctx context.Context) (map[claim.ID][]Keeper, error)
	// SetKeepers stores who keeps a claim, in place of who did; nobody, if there are none.
	SetKeepers(ctx context.Context, id claim.ID, keepers []Keeper) error
}

// Claims is what is done to claims. Its methods are safe for concurrent use.
type Claims interface {
	Find(ctx context.Context, id claim.ID) (claim.Hold, error)
	Renew(ctx context.Context, id claim.ID) (claim.Hold, error)
	Finish(ctx context.Context, id claim.ID, f claim.Finish) (claim.Hold, error)
}

// Config is what a Watch is made of.
type Config struct {
	Storage Storage
	Claims  Claims
	// Processes are those of this machine if nil.
	Processes Processes
	Log       *slog.Logger
}

// Processes are those that may keep something alive.
type Processes interface {
	// Life tells whether a process is alive, and still the one that was named.
	Life(Process) Life
}

// Here is the processes of this machine.
type Here struct{}

func (Here) Life(p Process) Life { return LifeOf(p) }

// look is how often processes are looked at.
const pollEvery = time.Second

// Watch looks after the claims that have keepers. It is safe for concurrent use.
type Watch struct {
	config Config
	loop   *clock.Loop

	mu   sync.Mutex
	kept map[claim.ID]*kept
}

// kept is a claim that has keepers, or had them.
type kept struct {
	// granted is set once there is a claim; until then it is being made.
	granted bool
	stored  []Keeper
	// connections counts those that are open now.
	connections int
	// grace is that of the keeper that left last, and left when that was; zero while
	// one is there.
	grace time.Duration
	left  time.Time
	why   string
	beat  time.Time // when the next sign of life is due
}

// New returns a watch of the claims whose keepers are stored. A connection has to come
// again within its grace.
func New(ctx context.Context, c Config) (*Watch, error) {
	if c.Processes == nil {
		c.Processes = Here{}
	}
	w := &Watch{config: c, kept: make(map[claim.ID]*kept)}
	w.loop = clock.NewLoop(0, w.turn)
	stored, err := c.Storage.Keepers(ctx)
	if err != nil {
		return nil, err
	}
	for id, keepers := range stored {
		w.kept[id] = &kept{granted: true, stored: keepers}
	}
	return w, nil
}

// Lives reports whether a process is alive, as far as is known.
func (w *Watch) Lives(p Process) bool { return w.config.Processes.Life(p) != Gone }

// Keep has a process keep a claim alive, one that is about to be made perhaps, see
// Granted and Forget.
func (w *Watch) Keep(ctx context.Context, id claim.ID, k Keeper) error {
	return w.change(ctx, id, func(c *kept) {
		c.stored = slices.DeleteFunc(c.stored, func(other Keeper) bool { return other.Process == k.Process })
		c.stored = append(c.stored, k)
	})
}

// Granted says that the claim of Keep has been made.
func (w *Watch) Granted(id claim.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.kept[id]; ok {
		c.granted = true
	}
	w.loop.Wake()
}

// Forget says that there is nothing to be kept any more.
func (w *Watch) Forget(ctx context.Context, id claim.ID) error {
	w.mu.Lock()
	_, known := w.kept[id]
	delete(w.kept, id)
	w.mu.Unlock()
	if !known {
		return nil
	}
	return w.config.Storage.SetKeepers(ctx, id, nil)
}

// Connect has a connection keep a claim alive until leave is called.
func (w *Watch) Connect(ctx context.Context, id claim.ID, grace time.Duration) (leave func(), err error) {
	err = w.change(ctx, id, func(c *kept) {
		// One row stands for all connections: after a restart, any will do.
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
		if c, ok := w.kept[id]; ok {
			c.connections--
		}
		w.loop.Wake()
	}, nil
}

// Orphaned reports whether a claim had keepers, and all of them are gone.
func (w *Watch) KeepersGone(id claim.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.kept[id]
	if !ok || !c.granted || len(c.stored) == 0 {
		return false
	}
	life, _, _ := w.inspect(c)
	return life == Gone
}

// change changes who keeps a claim, and stores it.
func (w *Watch) change(ctx context.Context, id claim.ID, change func(*kept)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := kept{}
	if c, ok := w.kept[id]; ok {
		next = *c
		next.stored = slices.Clone(c.stored)
	}
	change(&next)
	if err := w.config.Storage.SetKeepers(ctx, id, next.stored); err != nil {
		return err
	}
	next.left, next.beat = time.Time{}, time.Time{}
	w.kept[id] = &next
	w.loop.Wake()
	return nil
}

// Run looks after the claims until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.loop.Run(ctx) }

// turn looks after the claims, and says when it is to be done again.
func (w *Watch) turn(ctx context.Context) time.Duration {
	if w.RunOnce(ctx) {
		return pollEvery
	}
	return clock.UntilWoken // by whoever adds a keeper
}

// RunOnce looks at every keeper, gives the signs of life that are due, and gives back the
// claims that have been without a keeper for their grace. It reports whether there is
// anything to look after.
func (w *Watch) RunOnce(ctx context.Context) bool {
	w.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.kept))
	w.mu.Unlock()
	for _, id := range ids {
		if err := w.lookAfter(ctx, id); err != nil && ctx.Err() == nil {
			w.config.Log.Warn("a claim could not be looked after; it is tried again", "claim", id, "error", err)
		}
	}
	return len(ids) > 0
}

// lookAfter looks after one claim.
func (w *Watch) lookAfter(ctx context.Context, id claim.ID) error {
	now := time.Now()
	over, beat, why := w.due(id, now)
	switch {
	case over:
		_, err := w.config.Claims.Finish(ctx, id, claim.Finish{As: claim.EndReleased, Summary: why})
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
		w.beaten(id, now.Add(pulse(cl.Timeout)))
		_, err = w.config.Claims.Renew(ctx, id)
	}
	if gone(err) {
		return w.Forget(ctx, id)
	}
	return err
}

// standing says whether the claim is to be given back, and why, or whether a sign of life
// is due.
func (w *Watch) due(id claim.ID, now time.Time) (over, beat bool, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.kept[id]
	if !ok || !c.granted {
		return false, false, ""
	}
	life, grace, who := w.inspect(c)
	if life != Gone {
		c.left = time.Time{}
		// For one that is not heard of no signs are given: should its machine be gone, the
		// claim ends with its lease.
		return false, life == Living && !now.Before(c.beat), ""
	}
	if c.left.IsZero() {
		c.left, c.grace, c.why = now, grace, fmt.Sprintf("%s, which kept the claim alive, is gone", who)
	}
	return now.Sub(c.left) >= c.grace, false, c.why
}

// looked looks at the keepers of a claim: how the one is that is best, the longest grace, and
// who is gone. w.mu is held.
func (w *Watch) inspect(c *kept) (best Life, grace time.Duration, who string) {
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
	if c, ok := w.kept[id]; ok {
		c.beat = next
	}
}

// pulse is how often a sign of life is given: often enough for leases to be written
// anew at half their time. None of them costs a request by itself.
func pulse(lease time.Duration) time.Duration { return min(lease/4, time.Minute) }

// gone reports whether there is no claim left to be kept.
func gone(err error) bool {
	_, isLost := errors.AsType[*claim.Lost](err)
	return isLost || errors.Is(err, claim.ErrUnknownClaim)
}
