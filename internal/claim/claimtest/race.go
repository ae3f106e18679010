package claimtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// RaceOptions describe a random race.
type RaceOptions struct {
	// Seed decides everything else about the race.
	Seed uint64
	// Policy is that of RacePolicy if zero.
	Policy claim.Policy
	// Zombies lets any write land after its sender has given it up. Without it
	// only claim writes do, which is what the protocol can make good.
	Zombies bool
	// Store, if set, stands between each daemon's claimer and the rest: for
	// protocols that are broken on purpose.
	Store func(*claimsim.Register, claim.Store) claim.Store
}

// RacePolicy is the policy of races: leases are short, so that they run out, but
// not so short that a claim which lands a minute late is stale before its holder
// can have repaired the one that it covers.
func RacePolicy() claim.Policy {
	p := claimsim.Policy()
	p.Timeout = 2 * time.Minute
	return p
}

// The parts of a race.
const (
	raceTime   = 5 * time.Minute  // for agents to come for the task
	settleTime = 15 * time.Minute // for the daemons, without faults, to put everything right
)

// Race is what a random race came to.
type Race struct {
	// Granted is how many claims were granted.
	Granted int
	// Wrong lists what must not have happened.
	Wrong []string
	// Operations are those of the agents, as they saw them.
	Operations []Operation
	// Pages is all that the task's page showed.
	Pages []claimsim.Version
	// Events is what each daemon wrote down.
	Events [][]claim.Event
}

// String tells what happened, in the order of time, for finding out why.
func (r Race) String() string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, v := range r.Pages {
		t := v.Task
		lines = append(lines, line{v.From, fmt.Sprintf("page, by %q: %s %q %s %q lease %v", v.By, t.Status, t.ClaimedBy, t.ClaimedAt.Format(time.TimeOnly), t.Token, t.Timeout)})
	}
	for i, events := range r.Events {
		for _, e := range events {
			if e.Kind != claim.KindDenied || e.Against == "" {
				lines = append(lines, line{e.At, fmt.Sprintf("daemon %d: %s %s %s %s: %s", i, e.Kind, e.Agent, e.Claim, e.Code, e.Detail)})
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", l.at.Format("15:04:05.000"), l.text)
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(&b, w)
	}
	return b.String()
}

// RunRace runs the race of a seed: 2 to 8 agents, some of the same name, in 2 to
// 4 daemons whose clocks may be wrong and jump, and some of which are killed and
// start anew, claim one task again and again, while requests are slow and go
// wrong in every way. Those that get it work,
// renew, finish, are late or vanish; a person reopens what was finished. Then
// the faults end, and everything has to fall into place.
func RunRace(ctx context.Context, o RaceOptions) Race {
	if o.Policy == (claim.Policy{}) {
		o.Policy = RacePolicy()
	}
	r := &race{RaceOptions: o, rand: rand.New(rand.NewPCG(o.Seed, 0)), began: time.Now()}
	first := task.Task{ID: "11111111-1111-1111-1111-111111111111", Title: "Mend the roof", Status: task.Open}
	if r.rand.IntN(3) == 0 {
		first.ClaimedBy, first.ClaimedAt = "Ghost", time.Now().Add(-time.Hour)
		first.Status = []task.Status{task.Open, task.InProgress}[r.rand.IntN(2)]
		first.Token = string(claim.NewID(first.ClaimedAt))
	}
	r.page, r.register = first.ID, claimsim.NewRegister(first)
	r.rush = []time.Duration{time.Second, 3 * time.Second, 20 * time.Second}[r.rand.IntN(3)]
	r.faulty.Store(true)
	for i := range 2 + r.rand.IntN(3) {
		n := new(node)
		n.Store(r.daemon(i))
		r.daemons = append(r.daemons, n)
	}
	r.run(ctx)
	return r.Race
}

// race is a race that is being run.
type race struct {
	RaceOptions
	rand     *rand.Rand
	began    time.Time
	register *claimsim.Register
	page     task.ID
	daemons  []*node
	rush     time.Duration // within which all agents come first
	faulty   atomic.Bool

	mu sync.Mutex
	Race
}

// node is where a daemon runs; it holds the daemon that does, or was killed last.
type node struct {
	atomic.Pointer[claimsim.Daemon]
}

func (r *race) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var loops, agents sync.WaitGroup
	for i, n := range r.daemons {
		d := n.Load()
		phase := claimsim.UpTo(r.rand, claimsim.SyncInterval)
		if killed := claimsim.UpTo(r.rand, raceTime); r.rand.IntN(3) == 0 {
			loops.Go(func() { r.kill(ctx, n, killed) })
		}
		jump := claimsim.UpTo(r.rand, 2*raceTime)
		skew := d.Store.Skew() + either(r.rand, 5*time.Minute) // so that no step is put off beyond the end
		if i > 0 && r.rand.IntN(2) == 0 {
			time.AfterFunc(jump, func() { d.Store.SetSkew(skew) })
		}
		loops.Go(func() { r.keep(ctx, n, phase) })
		loops.Go(func() { r.runDue(ctx, n) })
	}
	loops.Go(func() { r.person(ctx) })

	names := []string{"Sandman", "Oracle", "Hypnos", "Morpheus", "Phantasos", "Phobetor"}
	for i := range max(len(r.daemons), 2+r.rand.IntN(7)) {
		a := &agent{
			race: r, rand: rand.New(rand.NewPCG(r.Seed, 1+uint64(i))), number: i,
			name: names[r.rand.IntN(len(names))], daemon: r.daemons[i%len(r.daemons)],
		}
		agents.Go(func() { a.run(ctx) })
	}
	agents.Wait()
	r.faulty.Store(false)
	_ = claimsim.Sleep(ctx, 2*time.Minute) // the last late writes land
	for waited := time.Duration(0); waited < settleTime && !r.quiet(ctx); waited += claimsim.SyncInterval {
		_ = claimsim.Sleep(ctx, claimsim.SyncInterval)
	}
	r.finalCheck(ctx)
	stop()
	loops.Wait()
	r.Pages = r.register.History(r.page)
	for i, n := range r.daemons {
		d := n.Load()
		d.Close()
		if n := d.Store.Kept(); n > 0 {
			r.wrong("daemon %d keeps %d permits that it does not use", i, n)
		}
		r.Events = append(r.Events, d.Ledger.Events())
		r.Operations = append(r.Operations, losses(d.Ledger.Events(), r.began)...)
	}
}

// keep is a daemon's work at every sync interval, with a sweep now and then.
func (r *race) keep(ctx context.Context, n *node, phase time.Duration) {
	for round := 0; claimsim.Sleep(ctx, phase) == nil; round++ {
		phase = claimsim.SyncInterval
		d := n.Load()
		_ = d.Sync(ctx)
		r.check("sync")
		if round%4 == 3 {
			_, _, _ = d.Sweep(ctx, r.page)
		}
	}
}

// runDue takes the steps that a daemon owes when they are due.
func (r *race) runDue(ctx context.Context, n *node) {
	for wait := time.Duration(0); claimsim.Sleep(ctx, wait) == nil; {
		d := n.Load()
		next, _ := d.RunDue(ctx)
		wait = claimsim.SyncInterval
		if !next.IsZero() {
			wait = max(time.Second, min(wait, next.Sub(d.Store.Now())))
		}
	}
}

// kill kills a daemon after some time, and starts it anew soon enough for it to
// repair its claims.
func (r *race) kill(ctx context.Context, n *node, after time.Duration) {
	if claimsim.Sleep(ctx, after) != nil {
		return
	}
	n.Load().Kill()
	if claimsim.Sleep(ctx, 5*time.Second) != nil {
		return
	}
	d, err := n.Load().Successor(ctx)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrong("recovery: %v", err)
		return
	}
	n.Store(d)
}

// person reopens the task once it has been finished or blocked.
func (r *race) person(ctx context.Context) {
	for claimsim.Sleep(ctx, 30*time.Second) == nil {
		if t := r.register.Page(r.page); r.faulty.Load() && (t.Status == task.Completed || t.Status == task.Blocked) {
			r.register.Edit(r.page, func(t *task.Task) { t.Status = task.Open })
		}
	}
}
