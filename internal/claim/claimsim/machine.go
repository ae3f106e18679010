package claimsim

import (
	"context"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/task"
)

// Halt is what stands still for a while.
type Halt int

// The ways in which a daemon stands still. Nothing is sent meanwhile, and no answer
// noticed; what was sent goes its way.
const (
	// Stopped is the process alone, as by a signal: the clocks go on.
	Stopped Halt = iota
	// Suspended is the machine with its monotonic clock, as when a lid is closed. The wall
	// clock goes on.
	Suspended
	// Paused is the machine with both clocks, as a virtual one that is paused. They are
	// behind afterwards.
	Paused
)

// machine is what a daemon runs on, with its clocks, which may be wrong.
type machine struct {
	started time.Time // what the monotonic clock counts from

	mu    sync.Mutex
	skew  time.Duration // how far the wall clock is ahead
	stood time.Duration // for how long the monotonic clock has stood still
	what  Halt
	till  time.Time // the end of the last halt
}

func newMachine(skew time.Duration) *machine { return &machine{started: time.Now(), skew: skew} }

// instant is this moment by the machine's own clocks.
func (m *machine) instant() clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	i := clock.Instant{Wall: now.Round(0).Add(m.skew), Mono: now.Sub(m.started) - m.stood}
	if left := m.till.Sub(now); left > 0 { // what stands still shows now what it did at first
		if m.what != Stopped {
			i.Mono += left
		}
		if m.what == Paused {
			i.Wall = i.Wall.Add(left)
		}
	}
	return i
}

// SetSkew sets the daemon's own clock, as by a person or a time server, to be
// ahead of the register's by d. If that sets it forward, Now is wrong by the jump
// until the next answer.
func (m *machine) SetSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = d
}

// Skew is by how much the daemon's own clock is ahead of the register's now.
func (m *machine) Skew() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skew
}

// Halt makes the daemon stand still for d from now on, unless it does already.
func (m *machine) Halt(what Halt, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.till.After(now) {
		return
	}
	m.what, m.till = what, now.Add(d)
	if what != Stopped {
		m.stood += d
	}
	if what == Paused {
		m.skew -= d
	}
}

// GoOn waits until the daemon does not stand still. Whatever else the daemon sends than requests
// to the register calls it, too.
func (m *machine) GoOn() {
	m.mu.Lock()
	left := time.Until(m.till)
	m.mu.Unlock()
	if left > 0 {
		time.Sleep(left)
	}
}

type haltKey struct{}

type halt struct {
	what  Halt
	lasts time.Duration
}

// halted is a store at whose requests the daemon stands still.
type halted struct {
	claim.Store
	halt
}

func (h halted) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, haltKey{}, h.halt)
}

func (h halted) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return h.Store.Get(h.in(ctx), id)
}

func (h halted) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	return h.Store.Write(h.in(ctx), id, w)
}

// Halted makes the daemon stand still for that long just before a request is sent.
func Halted(what Halt, d time.Duration) Fault {
	return func(s claim.Store) claim.Store { return halted{s, halt{what, d}} }
}
