package claimtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
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
	Store func(*Register, claim.Store) claim.Store
}

// RacePolicy is the policy of races: leases are short, so that they run out, but
// not so short that a claim which lands a minute late is stale before its holder
// can have repaired the one that it covers.
func RacePolicy() claim.Policy {
	p := Policy()
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
	Pages []Version
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
// 4 daemons whose clocks may be wrong and jump, claim one task again and again,
// while requests are slow and go wrong in every way. Those that get it work,
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
	r.page, r.register = first.ID, NewRegister(first)
	r.rush = []time.Duration{time.Second, 3 * time.Second, 20 * time.Second}[r.rand.IntN(3)]
	r.faulty.Store(true)
	for i := range 2 + r.rand.IntN(3) {
		r.daemons = append(r.daemons, r.daemon(i))
	}
	r.run(ctx)
	return r.Race
}

// race is a race that is being run.
type race struct {
	RaceOptions
	rand     *rand.Rand
	began    time.Time
	register *Register
	page     task.ID
	daemons  []*Daemon
	rush     time.Duration // within which all agents come first
	faulty   atomic.Bool

	mu sync.Mutex
	Race
}

// daemon makes the i-th daemon, with a network of its own.
func (r *race) daemon(i int) *Daemon {
	seed := r.rand.Uint64()
	o := DaemonOptions{Policy: r.Policy, StoreOptions: StoreOptions{Name: fmt.Sprint(i), Seed: seed}}
	usual := Uniform(300 * time.Millisecond)
	tail := HeavyTail(usual, []float64{0, 0.03, 0.2}[r.rand.IntN(3)], 9*time.Second)
	spared := &respite{}
	o.Latency = func(rnd *rand.Rand) Delay {
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
	faults := r.faults(seed, []float64{0, 0.05, 0.25}[r.rand.IntN(3)], spared)
	o.Fault = func(s claim.Store) claim.Store {
		s = faults(s)
		if r.Store != nil {
			s = r.Store(r.register, s)
		}
		return s
	}
	return r.register.Daemon(o)
}

// respite spares a daemon further faults for the few requests that it takes to
// write a claim back. A holder that cannot do that for a whole grace may lose
// its claim to a late write.
type respite struct{ left atomic.Int32 }

const respiteTime = 4 // requests

func (r *respite) begin()     { r.left.Store(respiteTime) }
func (r *respite) count()     { r.left.Add(-1) }
func (r *respite) over() bool { return r.left.Load() <= 0 }

// after makes the faults begin a respite when they strike.
func (r *respite) after(faults []Fault) []Fault {
	out := make([]Fault, len(faults))
	for i, f := range faults {
		out[i] = func(s claim.Store) claim.Store {
			r.begin()
			return f(s)
		}
	}
	return out
}

// either draws a time up to most, ahead or behind.
func either(r *rand.Rand, most time.Duration) time.Duration { return upTo(r, 2*most) - most }

// faults lets requests go wrong in every way, each with the given probability.
func (r *race) faults(seed uint64, probability float64, spared *respite) Fault {
	answered := []Fault{
		Slow(4*time.Second, 0), Slow(0, 4*time.Second),
		SavedBut503, AnswerDropped, RequestDropped, NotApplied, WriteRefused,
		Fails(409, false), Fails(409, true), Fails(500, false), Fails(500, true), Fails(502, false),
		Fails(502, true), Fails(503, false), Fails(504, false), Fails(504, true),
		TurnedAway(429, 2*time.Second), TurnedAway(529, 5*time.Second),
	}
	late := append([]Fault{
		Late(time.Second), Late(5 * time.Second), Late(20 * time.Second), Late(time.Minute),
		AppliedLate(2 * time.Second), AppliedLate(10 * time.Second), AppliedLate(time.Minute),
	}, answered...)

	var mu sync.Mutex
	claimed := make(map[string]bool)
	first := func(w *claim.Write) bool { // the first write of its claim, not one that puts it back
		if KindOf(w) != Claims {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		defer func() { claimed[*w.Token] = true }()
		return !claimed[*w.Token]
	}
	mayStrike := func() bool { return r.faulty.Load() && spared.over() }
	mayBeLate := func(_ task.ID, w *claim.Write) bool {
		return w != nil && (first(w) || r.Zombies) && mayStrike()
	}
	writes := func(_ task.ID, w *claim.Write) bool { return w != nil && mayStrike() }
	reads := func(_ task.ID, w *claim.Write) bool { return w == nil && mayStrike() }
	badReads := []Fault{ReadFails(claim.Unavailable), SlowRead(time.Second), SlowRead(5 * time.Second)}
	return func(s claim.Store) claim.Store {
		s = Sometimes(seed+1, probability, writes, spared.after(answered)...)(s)
		s = Sometimes(seed+2, probability, mayBeLate, spared.after(late)...)(s)
		return Sometimes(seed+3, probability/2, reads, spared.after(badReads)...)(s)
	}
}

func (r *race) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var loops, agents sync.WaitGroup
	for i, d := range r.daemons {
		phase := upTo(r.rand, SyncInterval)
		jump := upTo(r.rand, 2*raceTime)
		skew := d.options.Skew + either(r.rand, 5*time.Minute) // so that no step is put off beyond the end
		if i > 0 && r.rand.IntN(2) == 0 {
			time.AfterFunc(jump, func() { d.Store.SetSkew(skew) })
		}
		loops.Go(func() { r.keep(ctx, d, phase) })
		loops.Go(func() { r.runDue(ctx, d) })
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
	_ = sleep(ctx, 2*time.Minute) // the last late writes land
	for waited := time.Duration(0); waited < settleTime && !r.quiet(ctx); waited += SyncInterval {
		_ = sleep(ctx, SyncInterval)
	}
	r.finalCheck(ctx)
	stop()
	loops.Wait()
	r.Pages = r.register.History(r.page)
	for _, d := range r.daemons {
		d.Close()
		r.Events = append(r.Events, d.Ledger.Events())
	}
}

// keep is a daemon's work at every sync interval, with a sweep now and then.
func (r *race) keep(ctx context.Context, d *Daemon, phase time.Duration) {
	for n := 0; sleep(ctx, phase) == nil; n++ {
		phase = SyncInterval
		_ = d.Sync(ctx)
		r.check("sync")
		if n%4 == 3 {
			_, _, _ = d.Sweep(ctx, r.page)
		}
	}
}

// runDue takes the steps that a daemon owes when they are due.
func (r *race) runDue(ctx context.Context, d *Daemon) {
	for wait := time.Duration(0); sleep(ctx, wait) == nil; {
		next, _ := d.RunDue(ctx)
		wait = SyncInterval
		if !next.IsZero() {
			wait = max(time.Second, min(wait, next.Sub(d.Store.Now())))
		}
	}
}

// person reopens the task once it has been finished or blocked.
func (r *race) person(ctx context.Context) {
	for sleep(ctx, 30*time.Second) == nil {
		if t := r.register.Page(r.page); r.faulty.Load() && (t.Status == task.Completed || t.Status == task.Blocked) {
			r.register.Edit(r.page, func(t *task.Task) { t.Status = task.Open })
		}
	}
}

// check looks for two live claims at once, which is what must never be. With
// zombies it cannot be ruled out, and is not looked for.
func (r *race) check(when string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var held []claim.Claim
	for _, d := range r.daemons {
		live, err := d.Ledger.Live(context.Background())
		if err != nil {
			r.wrong("%v", err)
		}
		for _, c := range live {
			if c.State == claim.Held && c.ExpiresAt().After(time.Now()) {
				held = append(held, c)
			}
		}
	}
	if len(held) > 1 && !r.Zombies {
		r.wrong("%s: %s (%s) and %s (%s) both hold the task", when, held[0].Agent, held[0].ID, held[1].Agent, held[1].ID)
	}
}

// wrong notes what must not have happened. r.mu is held.
func (r *race) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf("seed %d, after %v: ", r.Seed, time.Since(r.began))+fmt.Sprintf(format, args...))
}

// quiet reports whether no daemon has anything left to do.
func (r *race) quiet(ctx context.Context) bool {
	for _, d := range r.daemons {
		live, _ := d.Ledger.Live(ctx)
		for _, c := range live {
			if !watched(c) {
				return false
			}
		}
	}
	t := r.register.Page(r.page)
	return t.ClaimedBy == "" || t.Status.Finished()
}

// watched reports whether c is an attempt whose write may come yet.
func watched(c claim.Claim) bool { return c.State == claim.Abandoned && c.Due.IsZero() }

// finalCheck looks at what is left once everything had time to fall into place.
func (r *race) finalCheck(ctx context.Context) {
	r.check("end")
	r.checkLedgers(ctx)
	t := r.register.Page(r.page)
	if t.Status != task.Open && t.Status != task.InProgress {
		return
	}
	late := r.register.Daemon(DaemonOptions{Policy: r.Policy, StoreOptions: StoreOptions{Name: "late"}})
	defer late.Close()
	if _, err := late.Claim(ctx, claim.Request{Agent: "Latecomer", Task: t}); err != nil {
		r.mu.Lock() // not before: nobody may wait for a lock while time passes
		defer r.mu.Unlock()
		r.wrong("the task cannot be had any more: %v (%+v)", err, t)
	}
}

// checkLedgers looks at what the daemons have on their books.
func (r *race) checkLedgers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range r.daemons {
		live, _ := d.Ledger.Live(ctx)
		for _, c := range live {
			if !watched(c) && c.State != claim.Held {
				r.wrong("daemon %d: claim %s of %s is stuck: %s, due at %v", i, c.ID, c.Agent, c.State, c.Due)
			}
			if c.State == claim.Held {
				r.wrong("daemon %d: claim %s of %s is still held, although its lease ended at %v", i, c.ID, c.Agent, c.ExpiresAt())
			}
		}
		r.checkEvents(i, d)
		for n, call := range d.Store.Calls() {
			if call.Unpermitted {
				r.wrong("daemon %d: request %d (%s) was sent without a permit", i, n, KindOf(call.Write))
			}
		}
	}
}

// checkEvents looks at what the i-th daemon wrote down: each claim that was
// granted ended once, and as its record says.
func (r *race) checkEvents(i int, d *Daemon) {
	granted, ends := make(map[claim.ID]bool), make(map[claim.ID][]claim.Kind)
	for _, e := range d.Ledger.Events() {
		switch e.Kind {
		case claim.KindGranted:
			if granted[e.Claim] {
				r.wrong("daemon %d: claim %s was granted twice", i, e.Claim)
			}
			granted[e.Claim] = true
		case claim.KindCompleted, claim.KindFailed, claim.KindBlocked, claim.KindReleased, claim.KindLost:
			ends[e.Claim] = append(ends[e.Claim], e.Kind)
		}
	}
	for id := range granted {
		c, err := d.Ledger.Claim(context.Background(), id)
		if err != nil {
			r.wrong("daemon %d: %v", i, err)
			continue
		}
		want := 1
		if c.Ending == claim.EndOverridden || c.Ending == claim.EndSwept {
			want = 0 // those events are the overriding claim's and the sweep's
		}
		if len(ends[id]) != want || want == 1 && string(ends[id][0]) != string(c.Ending) {
			r.wrong("daemon %d: claim %s ended as %s, events %v", i, id, c.Ending, ends[id])
		}
	}
	for id := range ends {
		if !granted[id] {
			r.wrong("daemon %d: claim %s ended as %v without having been granted", i, id, ends[id])
		}
	}
}

// agent is one that comes for the task again and again.
type agent struct {
	*race
	rand   *rand.Rand
	number int
	name   string
	daemon *Daemon
}

func (a *agent) run(ctx context.Context) {
	_ = sleep(ctx, upTo(a.rand, a.rush))
	for ; time.Since(a.began) < raceTime; _ = sleep(ctx, upTo(a.rand, 20*time.Second)) {
		c, ok := a.claim(ctx)
		if !ok {
			_ = sleep(ctx, upTo(a.rand, 30*time.Second))
			continue
		}
		if a.work(ctx, c) {
			a.finish(ctx, c)
		}
	}
}

// claim asks for the task, with more or less patience.
func (a *agent) claim(ctx context.Context) (claim.Claim, bool) {
	if a.rand.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, upTo(a.rand, 6*time.Second))
		defer cancel()
	}
	lease := []time.Duration{0, 0, 2 * time.Minute, 150 * time.Second, 3 * time.Minute}[a.rand.IntN(5)]
	op := a.call(Operation{Kind: OpClaim})
	c, err := a.daemon.Claim(ctx, claim.Request{
		Agent: a.name, Task: task.Task{ID: a.page}, Timeout: lease, Keep: a.rand.IntN(3) == 0,
	})
	op.Claim, op.OK = c.ID, err == nil
	a.returned(op)
	if err != nil {
		return claim.Claim{}, false
	}
	a.mu.Lock()
	a.Granted++
	a.mu.Unlock()
	a.check("grant to " + a.name)
	a.expires(c)
	return c, true
}

// work is what the agent does with the task, and whether it comes back to say so.
func (a *agent) work(ctx context.Context, c claim.Claim) bool {
	switch a.rand.IntN(6) {
	case 0: // is quick
		_ = sleep(ctx, upTo(a.rand, 30*time.Second))
	case 1: // forgets to renew, and is late
		_ = sleep(ctx, upTo(a.rand, 5*time.Minute))
	case 2: // vanishes
		return false
	default: // shows that it is alive, now and then
		for range a.rand.IntN(10) {
			_ = sleep(ctx, 5*time.Second+upTo(a.rand, 25*time.Second))
			renewed, err := a.daemon.Renew(ctx, c.ID)
			var lost *claim.Lost
			if errors.As(err, &lost) {
				return false
			}
			if err == nil {
				a.check("renewal by " + a.name)
				a.expires(renewed)
			}
		}
	}
	return true
}

// finish says that the agent is done, more than once if it is not sure of having
// been heard.
func (a *agent) finish(ctx context.Context, c claim.Claim) {
	f := claim.Finish{
		As:     []claim.Ending{claim.EndCompleted, claim.EndFailed, claim.EndBlocked, claim.EndReleased, claim.EndReleased}[a.rand.IntN(5)],
		Reopen: a.rand.IntN(2) == 0,
	}
	op := a.call(Operation{Kind: OpFinish, Claim: c.ID})
	defer func() { a.returned(op) }()
	for range 1 + a.rand.IntN(3) {
		got, err := a.daemon.Finish(ctx, c.ID, f)
		if err != nil {
			return
		}
		if op.OK = true; got.State == claim.Ended {
			if got.Ending != f.As {
				a.mu.Lock()
				a.wrong("%s finished its claim as %s, and it ended as %s", a.name, f.As, got.Ending)
				a.mu.Unlock()
			}
			return
		}
		_ = sleep(ctx, upTo(a.rand, 20*time.Second))
	}
}
