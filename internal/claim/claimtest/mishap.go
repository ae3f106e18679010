package claimtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// daemon returns the i-th daemon, with its own network, machine and ledger.
func (r *race) daemon(i int) *sim.Daemon {
	seed := r.rand.Uint64()
	policy := r.policy()
	o := sim.DaemonOptions{Policy: policy, StoreOptions: sim.StoreOptions{
		Name: fmt.Sprint(i), Seed: seed, Timeout: policy.Request,
	}}
	if r.Outside && r.rand.IntN(2) == 0 {
		o.Timeout = time.Minute
	}
	usual := sim.Uniform(300 * time.Millisecond)
	tail := sim.HeavyTail(usual, []float64{0, 0.03, 0.2}[r.rand.IntN(3)], slowest(policy))
	if r.Outside {
		tail = sim.HeavyTail(usual, 0.1, o.Timeout)
	}
	spared := &respite{}
	o.Latency = func(rnd *rand.Rand) sim.Delay {
		d := usual(rnd)
		if r.faulty.Load() && spared.over() {
			d = tail(rnd)
		}
		spared.count()
		if d.Before+d.Dated+d.After > time.Second {
			spared.begin()
		}
		return d
	}
	if r.rand.IntN(2) == 0 {
		o.Skew = either(r.rand, 10*time.Minute)
	}
	if lag := r.lag; lag > 0 {
		o.Lag = func(rnd *rand.Rand) time.Duration {
			if !r.faulty.Load() {
				return 0
			}
			return sim.UpTo(rnd, lag)
		}
	}
	faults := r.faults(seed, []float64{0, 0.05, 0.25}[r.rand.IntN(3)], spared)
	switch {
	case r.dawdle:
		tail, faults = usual, dawdling(seed, policy)
	case r.stands:
		some := faults
		if r.alone {
			tail, some = usual, func(s claim.Store) claim.Store { return s }
		}
		mayStrike := func() bool { return r.faulty.Load() && spared.over() }
		faults = func(s claim.Store) claim.Store { return some(standing(seed+6, mayStrike, spared)(s)) }
	}
	away := newSpells(r.rand, 3, time.Minute)
	if r.away && r.rand.IntN(2) == 0 {
		inner := faults
		faults = func(s claim.Store) claim.Store { return inner(sim.Outage(away.on)(s)) }
	}
	full, chance := newSpells(r.rand, 2, 30*time.Second), rand.New(rand.NewPCG(seed, 5))
	if r.full && r.rand.IntN(2) == 0 {
		var mu sync.Mutex
		o.Journal = sim.Failing(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return r.faulty.Load() && (full.on() || chance.IntN(30) == 0)
		})
	}
	f := newFence(r, i)
	o.Fault = func(s claim.Store) claim.Store { return fenced{faults(s), f.another()} }
	if r.Mutate != nil {
		r.Mutate(r.register, &o)
	}
	return r.register.Daemon(o)
}

// move makes another daemon the leader after some time. The former leader is halted, or only
// cut off, and carries on where it was.
func (r *race) move(ctx context.Context, n *node, after, lasts time.Duration) {
	if sim.Sleep(ctx, after) != nil {
		return
	}
	former := n.Load()
	former.Store.Halt(sim.Stopped, lasts)
	if sim.Sleep(ctx, leaseTime) != nil {
		return
	}
	defer former.Close()
	for {
		next, err := former.Heir(ctx)
		if err == nil {
			// The former leader may stand still in the middle of its work. The next one is on
			// another machine and does not wait for that.
			n.Store(next)
			n.term.Add(1)
			r.serve(ctx, n, 0)
			break
		}
		if !errors.Is(err, sim.ErrNotSaved) {
			r.mu.Lock()
			r.wrong("recovery: %v", err)
			r.mu.Unlock()
		}
		if next.Kill(); sim.Sleep(ctx, time.Second) != nil {
			return
		}
	}
	for end := time.Now().Add(lasts + 30*time.Second); time.Now().Before(end) && sim.Sleep(ctx, 5*time.Second) == nil; {
		_ = former.Sync(ctx)
		_, _ = former.RunDue(ctx)
		_ = former.SweepAll(ctx)
	}
}

// standStill halts a daemon now and then, if the race has halts.
func (r *race) standStill(d *sim.Daemon) {
	for range r.rand.IntN(4) {
		at, how := sim.UpTo(r.rand, raceTime), sim.Halt(r.rand.IntN(3))
		lasts := sim.UpTo(r.rand, time.Minute)
		if how == sim.Paused {
			lasts += shortest
		}
		if r.still {
			time.AfterFunc(at, func() { d.Store.Halt(how, lasts) })
		}
	}
}

// shortest is the shortest time for which the clocks of a machine stop. A shorter stop does not
// always show in the Dates of answers, and is beyond the protocol.
const shortest = 12 * time.Second

// respite spares a daemon further faults for the few requests that it needs to write a claim
// back. A holder that cannot do that for a whole grace may lose its claim to a late write.
type respite struct{ left atomic.Int32 }

const respiteTime = 4 // requests

func (r *respite) begin() { r.left.Store(respiteTime) }

func (r *respite) count() { r.left.Add(-1) }

func (r *respite) over() bool { return r.left.Load() <= 0 }

// after makes each fault begin a respite when it strikes.
func (r *respite) after(faults []sim.Fault) []sim.Fault {
	out := make([]sim.Fault, len(faults))
	for i, f := range faults {
		out[i] = func(s claim.Store) claim.Store {
			r.begin()
			return f(s)
		}
	}
	return out
}

// either draws a time up to most, ahead or behind.
func either(r *rand.Rand, most time.Duration) time.Duration { return sim.UpTo(r, 2*most) - most }

// latest is how late a write lands at most, as the protocol allows for the write window and the
// cut of a Date.
const latest = 66 * time.Second

// lateFates are those of a write that lands after its sender gave it up.
var lateFates = []sim.Fault{
	sim.Late(time.Second), sim.Late(5 * time.Second), sim.Late(20 * time.Second), sim.Late(latest),
	sim.AppliedLate(2 * time.Second), sim.AppliedLate(10 * time.Second), sim.AppliedLate(latest),
}

// faults lets requests go wrong in every way, each with the given probability.
func (r *race) faults(seed uint64, probability float64, spared *respite) sim.Fault {
	answered := []sim.Fault{
		sim.Slow(slow, 0), sim.Slow(0, slow),
		sim.SavedBut503, sim.AnswerDropped, sim.RequestDropped, sim.NotApplied, sim.WriteRefused,
		sim.Fails(409, false), sim.Fails(409, true), sim.Fails(500, false), sim.Fails(500, true), sim.Fails(502, false),
		sim.Fails(502, true), sim.Fails(503, false), sim.Fails(504, false), sim.Fails(504, true),
		sim.TurnedAway(429, 2*time.Second), sim.TurnedAway(529, 5*time.Second),
	}
	late := append(slices.Clone(lateFates), answered...)

	var mu sync.Mutex
	claimed := make(map[string]bool)
	first := func(w *claim.Write) bool { // the first write of its claim, not one that puts it back
		if sim.KindOf(w) != sim.Claims {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		defer func() { claimed[*w.Token] = true }()
		return !claimed[*w.Token]
	}
	mayStrike := func() bool { return r.faulty.Load() && spared.over() }
	mayBeLate := func(_ task.ID, w *claim.Write) bool {
		return w != nil && r.late && (first(w) || r.Outside) && mayStrike()
	}
	writes := func(_ task.ID, w *claim.Write) bool { return w != nil && mayStrike() }
	reads := func(_ task.ID, w *claim.Write) bool { return w == nil && mayStrike() }
	answers := func(task.ID, *claim.Write) bool { return r.faulty.Load() }
	mayFreeLate := func(_ task.ID, w *claim.Write) bool { return sim.KindOf(w) == sim.Openings && mayStrike() }
	wrongDates := []sim.Fault{sim.NoDate, wrongDates()}
	badReads := []sim.Fault{sim.ReadFails(claim.Unavailable), sim.SlowRead(time.Second), sim.SlowRead(5 * time.Second)}
	return func(s claim.Store) claim.Store {
		s = sim.Sometimes(seed+4, probability, answers, wrongDates...)(s)
		s = sim.Sometimes(seed+1, probability, writes, spared.after(answered)...)(s)
		s = sim.Sometimes(seed+2, probability, mayBeLate, spared.after(late)...)(s)
		s = sim.Sometimes(seed+7, probability, mayFreeLate, lateFates...)(s)
		return sim.Sometimes(seed+3, probability/2, reads, spared.after(badReads)...)(s)
	}
}

// wrongDates gives answers wrong Dates. No two of them agree with each other, nor with the
// wrong clock of a daemon.
func wrongDates() sim.Fault {
	var wrong atomic.Int64
	return func(s claim.Store) claim.Store {
		n := time.Duration(wrong.Add(1))
		off := 30*time.Minute + n*time.Minute
		if n%3 == 0 {
			off = -off
		}
		return sim.WrongDate(off)(s)
	}
}
