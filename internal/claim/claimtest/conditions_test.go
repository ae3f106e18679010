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

// conditions are the conditions of a race. Its seed draws them.
type conditions struct {
	tasks int
	// encounter makes the agents meet at the end of a lease, see race.encounter.
	encounter bool
	// dawdle limits the faults to writes that take long to arrive, though no longer than they
	// may.
	dawdle bool
	// hasty makes the agents come often and finish soon.
	hasty bool
	// late lets claim writes land long after they were given up. Then nothing keeps the holders
	// from repairing their claims in time, as the protocol requires.
	late bool
	// lag is the longest lag of a query.
	lag time.Duration
	// stands halts daemons for a short time before they send claim writes, which makes those
	// late.
	stands bool
	// alone excludes all other faults.
	alone bool
	// away, still and full add outages, longer halts of daemons, and failing ledgers.
	away, still, full bool
	// moves deposes daemons; others lead their ledgers from then on.
	moves bool
	// attempts is how many tries a task has, 0 for any number. reopens makes daemons reopen
	// tasks.
	attempts int
	reopens  bool
	// busy makes people do more than reopen finished tasks.
	busy bool
	// windows are the write windows and settle waits of the daemons; nil for those of the
	// policy.
	windows []window
	// request is the longest time that a request is on its way.
	request time.Duration
}

// Scene is a kind of race.
type Scene int

// The kinds of races.
const (
	// AnyScene lets the seed decide.
	AnyScene Scene = iota
	// AtLeaseEnd is an encounter at the end of a lease, with slow writes.
	AtLeaseEnd
	// Standing is a race of daemons that are halted before they send their claim writes.
	Standing
)

type window struct{ write, settle time.Duration }

// The write windows and settle waits of races.
var (
	narrow = []window{{1500 * time.Millisecond, 1600 * time.Millisecond}}
	mixed  = []window{{2 * time.Second, 3 * time.Second}, {1500 * time.Millisecond, 2500 * time.Millisecond}, {time.Second, 2100 * time.Millisecond}}
)

// clockAllowance is that of claim.Policy.StaleAt.
const clockAllowance = 10 * time.Second

func draw(r *rand.Rand, o RaceOptions) conditions {
	one := func(of int) bool { return r.IntN(of) == 0 }
	c := conditions{
		tasks: 1, encounter: one(3), hasty: one(5), late: one(2), busy: one(3),
		away: one(3), still: one(3), full: one(4), request: 10 * time.Second,
	}
	if one(3) {
		c.tasks = 2 + r.IntN(3)
	}
	c.lag = []time.Duration{0, 8 * time.Second, 2 * time.Minute}[r.IntN(3)]
	switch o.Scene {
	case AtLeaseEnd:
		c.encounter, c.dawdle = true, true
	case Standing:
		c.encounter, c.hasty, c.late, c.stands = false, true, true, true
	}
	if c.dawdle = c.dawdle || c.encounter && one(2); c.dawdle {
		c.late, c.away, c.full, c.still = false, false, false, false
	}
	if c.late {
		c.away, c.still, c.full, c.lag, c.stands = false, false, false, min(c.lag, 8*time.Second), c.stands || one(3)
	}
	if o.Policy == RacePolicy() {
		c.windows = [][]window{nil, nil, narrow, mixed}[r.IntN(4)]
	}
	if one(3) {
		c.request = 0 // as long as may be
	}
	if more := rand.New(rand.NewPCG(o.Seed, 2000)); o.Scene == AnyScene { // a generator of its own leaves the other draws as they are
		if more.IntN(3) == 0 {
			c.attempts = 1 + more.IntN(3)
		}
		c.reopens = more.IntN(2) == 0
		c.moves = more.IntN(4) == 0
	}
	if c.stands && (o.Scene == Standing || one(2)) { // and nothing else
		c.alone, c.tasks, c.busy, c.lag = true, 1, false, 0
		if o.Policy == RacePolicy() {
			c.windows = narrow
		}
	}
	return c
}

// policy draws the policy of one daemon.
func (r *race) policy() claim.Policy {
	p := r.Policy
	if len(r.windows) > 0 {
		w := r.windows[r.rand.IntN(len(r.windows))]
		p.WriteWindow, p.Settle = w.write, w.settle
	}
	p.OpenOnly = r.rand.IntN(4) == 0
	if r.rand.IntN(4) == 0 {
		p.MaxLifetime = 4 * time.Minute
	}
	p.Request, p.MaxAttempts = r.request, r.attempts
	most := p.WriteWindow + p.Settle + clockAllowance
	if p.Request == 0 || p.Request > most {
		p.Request = most
	}
	if r.Outside && r.rand.IntN(2) == 0 {
		p.Timeout = time.Duration(1+r.rand.IntN(4)) * time.Minute
	}
	return p
}

// slowest returns how long one part of a request may take, so that the request stays within the
// policy's limit whatever fault strikes it as well.
func slowest(p claim.Policy) time.Duration {
	return min(p.Request, p.WriteWindow+p.Settle+clockAllowance-slow) - 500*time.Millisecond
}

// slow is the delay that a fault adds to a request.
const slow = 4 * time.Second

// dawdling delays writes, each within the time that it may be on its way.
func dawdling(seed uint64, p claim.Policy) sim.Fault {
	var claims, others []sim.Fault
	for _, d := range []time.Duration{500, 1000, 1400, 1900, 2500, 4000} {
		claims = append(claims, sim.Slow(d*time.Millisecond, 0))
	}
	most := p.Request - time.Second // the rest is for the usual delay
	for _, part := range []time.Duration{2, 4, 6, 7, 8, 9, 10} {
		others = append(others, sim.Slow(part*most/10, 0))
	}
	rest := func(_ task.ID, w *claim.Write) bool { return w != nil && sim.KindOf(w) != sim.Claims }
	return func(s claim.Store) claim.Store {
		s = sim.Sometimes(seed, 0.5, sim.Every(sim.Claims), claims...)(s)
		s = sim.Sometimes(seed+2, 0.3, sim.Every(sim.Openings), sim.Late(latest))(s)
		return sim.Sometimes(seed+1, 0.6, rest, others...)(s)
	}
}

// standing halts a daemon before it sends its claim writes.
func standing(seed uint64, mayStrike func() bool, spared *respite) sim.Fault {
	var faults []sim.Fault
	for _, d := range []time.Duration{700, 1100, 1400, 1700, 2000, 2300, 2600, 4000, 8000} {
		faults = append(faults, sim.Halted(sim.Stopped, d*time.Millisecond), sim.Halted(sim.Suspended, d*time.Millisecond))
	}
	faults = append(faults, sim.Halted(sim.Paused, shortest))
	claims := func(_ task.ID, w *claim.Write) bool { return sim.KindOf(w) == sim.Claims && mayStrike() }
	return sim.Sometimes(seed, 0.5, claims, spared.after(faults)...)
}

// spells are the periods in which something fails.
type spells struct{ from, till []time.Time }

// newSpells draws 1 to n spells that begin within the race and last up to most.
func newSpells(r *rand.Rand, n int, most time.Duration) *spells {
	s := &spells{}
	for range 1 + r.IntN(n) {
		from := time.Now().Add(sim.UpTo(r, raceTime))
		s.from = append(s.from, from)
		s.till = append(s.till, from.Add(sim.UpTo(r, most)))
	}
	return s
}

// on reports whether a spell is on now.
func (s *spells) on() bool {
	now := time.Now()
	for i := range s.from {
		if !now.Before(s.from[i]) && now.Before(s.till[i]) {
			return true
		}
	}
	return false
}

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
			r.wrong("recovery: %v", err)
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

// fence watches the reads and writes of one daemon, over all its runs. A write that ends or
// prolongs something must rest on a reading that showed a claim or a mark of that daemon; a
// write that reopens a task, on one that showed that nobody has it.
type fence struct {
	race   *race
	daemon int

	own *sync.Map // the tokens that it wrote, in any form

	mu   sync.Mutex
	last map[task.ID]task.Task // its last readings
}

func newFence(r *race, daemon int) *fence {
	return &fence{race: r, daemon: daemon, own: new(sync.Map), last: make(map[task.ID]task.Task)}
}

// another returns the fence for another machine that takes over the lead.
func (f *fence) another() *fence {
	return &fence{race: f.race, daemon: f.daemon, own: f.own, last: make(map[task.ID]task.Task)}
}

// fenced is a store that a fence watches.
type fenced struct {
	claim.Store
	*fence
}

func (f fenced) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	r, err := f.Store.Get(ctx, id)
	if err == nil {
		f.saw(r.Task)
	}
	return r, err
}

func (f fenced) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	f.sends(id, w)
	r, err := f.Store.Write(ctx, id, w)
	if err == nil {
		f.saw(r.Task)
	}
	return r, err
}

func (f *fence) saw(t task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[t.ID] = t
}

func (f *fence) sends(id task.ID, w claim.Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := sim.KindOf(&w)
	mark := kind == sim.Voidings && w.ClaimedAt != nil
	t := f.last[id]
	if kind == sim.Claims || kind == sim.Voidings {
		defer f.own.Store(plain(*w.Token), nil)
	}
	if kind == sim.Claims || mark {
		return
	}
	over := claim.ParseToken(t.Token).Void && f.finishes(id) // an abandoned claim lies over its own
	reopens := f.race.reopens && kind == sim.Openings && f.nobodys(t)
	if _, own := f.own.Load(plain(t.Token)); !own && !over && !reopens {
		f.race.wrong("daemon %d: sent a %s to a page that showed %q of %s, which is none of its own", f.daemon, kind, t.Token, t.ClaimedBy)
	}
}

// nobodys reports whether the task may be reopened: nobody can claim it, and no agent has it as
// far as the daemon knows.
func (f *fence) nobodys(t task.Task) bool {
	tok := claim.ParseToken(t.Token)
	shown := tok.ID != "" && !tok.Done && !f.race.over(tok.ID) &&
		(t.ClaimedAt.IsZero() || !time.Now().After(f.race.Policy.StaleAt(t.ClaimedAt, f.race.Policy.LeaseOf(t))))
	return !t.Trashed && !shown && (waits(t.Status) || t.Status == task.InProgress && t.ClaimedBy == "")
}

// finishes reports whether the daemon is finishing a claim on the task.
func (f *fence) finishes(id task.ID) bool {
	for _, c := range f.race.daemons[f.daemon].Load().Claims("") {
		if c.Task.ID == id && c.State == claim.Finishing {
			return true
		}
	}
	return false
}

// plain returns a token without its void or done prefix.
func plain(token string) string {
	if tok := claim.ParseToken(token); tok.ID != "" {
		return string(tok.ID)
	}
	return token
}
