package arbitersim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"dibs/internal/arbiter"
)

// Pool is an arbiter.Pool in memory. It is safe for concurrent use.
type Pool struct {
	lasting  time.Duration // of a run that was kept
	mu       sync.Mutex
	until    map[string]time.Time // by run
	standing arbiter.Standing
	revision int64
}

var _ arbiter.Pool = (*Pool)(nil)

// NewPool returns a pool in which runs last for that long.
func NewPool(lasting time.Duration) *Pool {
	return &Pool{lasting: lasting, until: make(map[string]time.Time), standing: arbiter.Standing{Slots: make(map[int]arbiter.Slot), Wants: make(map[string]int)}}
}

// expire ends the runs that are over. p.mu is locked.
func (p *Pool) expire() {
	for run, until := range p.until {
		if !until.After(time.Now()) {
			delete(p.until, run)
			delete(p.standing.Wants, run)
			maps.DeleteFunc(p.standing.Slots, func(_ int, s arbiter.Slot) bool { return s.Run == run })
		}
	}
}

// Begin implements arbiter.Pool.
func (p *Pool) Begin(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision++
	run := strconv.FormatInt(p.revision, 10)
	p.until[run] = time.Now().Add(p.lasting)
	return run, nil
}

// Extend implements arbiter.Pool.
func (p *Pool) Extend(_ context.Context, run string) (arbiter.Standing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if _, ok := p.until[run]; !ok {
		return arbiter.Standing{}, arbiter.ErrOver
	}
	p.until[run] = time.Now().Add(p.lasting)
	return arbiter.Standing{Slots: maps.Clone(p.standing.Slots), Wants: maps.Clone(p.standing.Wants)}, nil
}

// Change implements arbiter.Pool.
func (p *Pool) Change(_ context.Context, run string, c arbiter.Change) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if _, ok := p.until[run]; !ok {
		return false, fmt.Errorf("%w: the run is over", arbiter.ErrAway)
	}
	for _, n := range c.Take {
		if _, taken := p.standing.Slots[n]; taken {
			return false, nil
		}
	}
	for n, s := range c.Give {
		if p.standing.Slots[n] != s {
			return false, nil
		}
	}
	p.revision++
	for _, n := range c.Take {
		p.standing.Slots[n] = arbiter.Slot{Run: run, Revision: p.revision}
	}
	for n := range c.Give {
		delete(p.standing.Slots, n)
	}
	if p.standing.Wants[run] = c.Want; c.Want == 0 {
		delete(p.standing.Wants, run)
	}
	return true, nil
}

// End ends all runs at once, before their time, as an etcd does that loses its leases.
func (p *Pool) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.until)
	clear(p.standing.Wants)
	clear(p.standing.Slots)
}

// FaultyPool is a pool on the way to which something goes wrong.
func FaultyPool(p arbiter.Pool, f Faults) arbiter.Pool {
	return &faultyPool{p, &faulty{Faults: f, rand: rand.New(rand.NewPCG(f.Seed, 78))}}
}

type faultyPool struct {
	pool arbiter.Pool
	way  *faulty
}

func (f *faultyPool) Begin(ctx context.Context) (string, error) {
	return call(ctx, f.way, f.pool.Begin)
}

func (f *faultyPool) Extend(ctx context.Context, run string) (arbiter.Standing, error) {
	return call(ctx, f.way, func(ctx context.Context) (arbiter.Standing, error) { return f.pool.Extend(ctx, run) })
}

func (f *faultyPool) Change(ctx context.Context, run string, c arbiter.Change) (bool, error) {
	return call(ctx, f.way, func(ctx context.Context) (bool, error) { return f.pool.Change(ctx, run, c) })
}
