package sim

import (
	"context"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// Halt says what stands still for a while.
type Halt int

// The kinds of halts. Meanwhile nothing is sent and no answer is noticed; requests already sent
// go on.
const (
	// Stopped halts only the process, as a signal does: the clocks go on.
	Stopped Halt = iota
	// Suspended halts the machine and its monotonic clock, as a closed lid does. The wall clock
	// goes on.
	Suspended
	// Paused halts the machine and both clocks, as when a virtual machine is paused. They are
	// behind afterwards.
	Paused
)

// machine is a daemon's machine, whose clocks may be wrong.
type machine struct {
	started time.Time // what the monotonic clock counts from

	mu    sync.Mutex
	skew  time.Duration // how far the wall clock is ahead
	stood time.Duration // how long the monotonic clock has stood still in all
	what  Halt
	till  time.Time // the end of the last halt
}

func newMachine(skew time.Duration) *machine { return &machine{started: time.Now(), skew: skew} }

// instant returns this moment by the machine's clocks.
func (m *machine) instant() clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	i := clock.Instant{Wall: now.Round(0).Add(m.skew), Mono: now.Sub(m.started) - m.stood}
	if left := m.till.Sub(now); left > 0 { // a stopped clock shows the beginning of the halt
		if m.what != Stopped {
			i.Mono += left
		}
		if m.what == Paused {
			i.Wall = i.Wall.Add(left)
		}
	}
	return i
}

// SetSkew sets the daemon's own clock ahead of the register's by d, as a person or a time
// server does. If the clock jumps forward, Now is wrong by the jump until the next answer.
func (m *machine) SetSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew = d
}

// Skew returns by how much the daemon's own clock is ahead of the register's.
func (m *machine) Skew() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skew
}

// Halt halts the daemon for d, unless it is halted already.
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

// GoOn waits until the daemon is not halted. Callers that let the daemon send anything but
// requests to the register call it, too.
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

// halted is a store whose requests halt the daemon.
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

// Halted halts the daemon for d just before a request is sent.
func Halted(what Halt, d time.Duration) Fault {
	return func(s claim.Store) claim.Store { return halted{s, halt{what, d}} }
}
