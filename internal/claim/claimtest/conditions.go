package claimtest

import (
	"math/rand/v2"
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
