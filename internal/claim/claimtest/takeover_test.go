package claimtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// Takeover is one test run: another daemon takes over from the leader of a ledger at one point
// of a deed.
type Takeover struct {
	// Deed names the leader's deed, one of Deeds.
	Deed string
	// Point counts the points of the deed: before and after each reading and each transaction.
	// A write has three: before it is sent, while it is on its way, and after it took effect
	// but before anybody heard so.
	Point int
	Blow  Blow
	// Edit makes a person cancel the task between the blow and the takeover.
	Edit   bool
	Policy claim.Policy
	// Lenient checks only the result, and not whether each write was saved first.
	Lenient bool
	// Mutate, if set, changes the configuration of the daemons.
	Mutate func(*sim.DaemonOptions)
}

// Blow is what happens to the leader.
type Blow struct {
	// Killed kills it. Otherwise it is halted in that way for that long. With a length of zero
	// it is deposed at work, as when a network is cut.
	Killed bool
	What   sim.Halt
	Lasts  time.Duration
}

func (b Blow) String() string {
	if b.Killed {
		return "killed"
	}
	return fmt.Sprintf("%s for %v", [...]string{"stopped", "suspended", "paused"}[b.What], b.Lasts)
}

// Blows are the blows that the explorer tries.
var Blows = []Blow{
	{Killed: true},
	{Lasts: 70 * time.Second},
	{},
	{Lasts: 12 * time.Second},
	{What: sim.Suspended, Lasts: 70 * time.Second},
	{What: sim.Paused, Lasts: 70 * time.Second},
}

const (
	// leaseTime is how long after its last sign of life a leader is deposed.
	leaseTime = 8 * time.Second
	// underWay is how long a write stays on its way if the blow falls then, and freeUnderWay one
	// that frees the task.
	underWay     = 9900 * time.Millisecond
	freeUnderWay = time.Minute
	// aftermath is how long agents keep coming after a takeover.
	aftermath = 100 * time.Second
)

// takeover is a running Takeover.
type takeover struct {
	*race
	Takeover
	ledger  *sim.Ledger
	leader  *sim.Daemon // until it is deposed
	node    *node
	sandman *agent

	struck chan struct{}
	edited time.Time // when the person cancelled the task
	// armed is set while points count, dead once the leader was killed, and deposed once another leads.
	armed, dead, deposed atomic.Bool
	passed               atomic.Int64

	mu   sync.Mutex
	next sim.Delay // of the leader's next request
	// late is set if the former leader has sent something that it had begun before it was deposed.
	late    bool
	flights []flight
}

// Run runs the test and returns its result. struck is false, and nothing happened, if the deed
// has no such point.
func (o Takeover) Run(ctx context.Context) (_ Race, struck bool) {
	deed := Deeds[o.Deed]
	r := newRace(RaceOptions{Policy: o.Policy}, rand.New(rand.NewPCG(uint64(o.Point), 0)))
	r.conditions = conditions{tasks: 1, reopens: true}
	first := task.Task{ID: "11111111-1111-1111-1111-111111111111", Title: "Mend the roof", Status: task.Open}
	if deed.first != nil {
		deed.first(&first)
	}
	r.register, r.pages = sim.NewRegister(first), []task.ID{first.ID}
	x := &takeover{race: r, Takeover: o, ledger: sim.NewLedger(), node: new(node), struck: make(chan struct{})}
	r.daemons = []*node{x.node}
	x.leader = x.daemon(true)
	x.node.Store(x.leader)
	x.sandman = x.agent(0, x.node)
	x.sandman.name = "Sandman"
	if deed.before != nil {
		deed.before(x, ctx)
	}

	var parts sync.WaitGroup
	done := make(chan struct{})
	x.armed.Store(true)
	parts.Go(func() {
		deed.act(x, ctx)
		close(done)
	})
	select {
	case <-x.struck:
	case <-done:
		x.leader.Close()
		return Race{}, false
	}
	x.takeOver(ctx, &parts, done)
	parts.Wait()
	for waited := time.Duration(0); waited < settleTime && !r.quiet(ctx); waited += sim.SyncInterval {
		x.tend(ctx, x.node.Load(), sim.SyncInterval, 0)
	}
	x.judge(ctx)
	x.leader.Close()
	x.node.Load().Close()
	r.Pages = r.register.History(first.ID)
	r.Events = append(r.Events, x.ledger.Events())
	r.lose(x.ledger.Events())
	return r.Race, true
}

// takeOver makes another daemon the leader, and lets agents come to both. done is closed when
// the former leader's agent has its answer.
func (x *takeover) takeOver(ctx context.Context, parts *sync.WaitGroup, done <-chan struct{}) {
	former := x.leader
	parts.Go(func() { x.tend(ctx, former, aftermath, 5*time.Second) }) // it does not know that it was deposed
	hypnos := x.agent(2, nil)
	parts.Go(func() {
		for range 20 {
			time.Sleep(5 * time.Second)
			hypnos.ask(claim.Request{}, func() (claim.Hold, error) {
				return former.Claim(ctx, claim.Request{Agent: "Hypnos", Task: task.Task{ID: x.pages[0]}})
			})
		}
	})
	time.Sleep(leaseTime / 2)
	if x.Edit {
		x.edited = time.Now()
		x.edit(x.pages[0], func(t *task.Task) bool { t.Status = task.Cancelled; return true })
	}
	time.Sleep(leaseTime / 2)
	x.deposed.Store(true)
	next := x.daemon(false)
	if err := next.Recover(ctx); err != nil {
		x.wrong("recovery: %v", err)
	}
	x.node.Store(next)
	parts.Go(func() { x.tend(ctx, next, aftermath+time.Minute, time.Second) })
	parts.Go(func() {
		<-done
		x.goOn(ctx)
	})
	oracle := x.agent(1, x.node)
	oracle.name = "Oracle"
	parts.Go(func() {
		for grants := 0; time.Since(x.began) < aftermath && grants < 2; time.Sleep(time.Duration(1+3*grants) * 500 * time.Millisecond) {
			c, ok := oracle.ask(claim.Request{}, func() (claim.Hold, error) {
				return next.Claim(ctx, claim.Request{Agent: oracle.name, Task: task.Task{ID: x.pages[0]}})
			})
			if ok {
				grants++
				time.Sleep(30 * time.Second)
				oracle.finish(ctx, c, claim.Finish{As: claim.EndReleased})
			}
		}
	})
}

// goOn continues the work of the deposed leader's agent through the next leader.
func (x *takeover) goOn(ctx context.Context) {
	time.Sleep(time.Second)
	live, _, _ := x.ledger.Live(ctx)
	for _, c := range live {
		switch {
		case c.State == claim.Finishing && c.Finish != nil:
			x.sandman.finish(ctx, c, *c.Finish)
		case c.State == claim.Held && c.Agent == x.sandman.name:
			time.Sleep(20 * time.Second)
			_, _ = x.node.Load().Renew(ctx, c.ID)
			x.sandman.finish(ctx, c, claim.Finish{As: claim.EndReleased})
		}
	}
}

// tend runs a daemon's periodic work for that long.
func (x *takeover) tend(ctx context.Context, d *sim.Daemon, long, every time.Duration) {
	every = max(every, time.Second)
	synced := time.Time{}
	for end := time.Now().Add(long); time.Now().Before(end); {
		_, _ = d.RunDue(ctx)
		if time.Since(synced) >= sim.SyncInterval {
			synced = time.Now()
			_ = errors.Join(d.Sync(ctx), d.SweepAll(ctx))
			x.check("sync")
			x.checkPages()
		}
		time.Sleep(every)
	}
}

// flight is a write on its way: when the page that it rests on was read, and when the write
// lands.
type flight struct{ read, lands time.Time }

// crossed reports whether the edit came between a write and the reading that it rests on: then
// the write overwrites the edit.
func (x *takeover) crossed() bool {
	return slices.ContainsFunc(x.flights, func(f flight) bool { return !x.edited.Before(f.read) && !x.edited.After(f.lands) })
}

// judge checks the end state.
func (x *takeover) judge(ctx context.Context) {
	if !x.edited.IsZero() && !x.crossed() {
		if t := x.register.Page(x.pages[0]); t.Status != task.Cancelled {
			x.wrong("a person cancelled the task, and it is %s", t.Status)
		}
	}
	if x.edited.IsZero() && !x.late && !x.Freed {
		for _, e := range x.ledger.Events() {
			if e.Kind == claim.KindLost || e.Kind == claim.KindOrphaned {
				x.wrong("claim %s of %s was lost, and no person has touched the task: %s", e.Claim, e.Agent, e.Detail)
			}
		}
	}
	if t := x.register.Page(x.pages[0]); x.late && t.Status == task.InProgress && t.ClaimedBy == "" {
		x.edit(t.ID, func(t *task.Task) bool { handOut(t); return true }) // only people may do that
	}
	x.finalCheck(ctx)
}

// daemon starts a daemon on the ledger: the first one, or the next.
func (x *takeover) daemon(first bool) *sim.Daemon {
	o := sim.DaemonOptions{Policy: x.Policy, Ledger: x.ledger}
	o.Policy.Request = 10 * time.Second
	o.Name = "b"
	o.Latency = sim.Always(sim.Delay{Before: 100 * time.Millisecond, After: 100 * time.Millisecond})
	d := &doors{takeover: x}
	if first {
		o.Name, d.struck = "a", true
		o.Latency = x.latency
	}
	o.Fault = func(s claim.Store) claim.Store { return doorStore{s, d} }
	o.Journal = func(l claim.Ledger) claim.Ledger { return doorLedger{l, d} }
	if x.Mutate != nil {
		x.Mutate(&o)
	}
	return x.register.Daemon(o)
}

func (x *takeover) latency(*rand.Rand) sim.Delay {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.next
	x.next = sim.Delay{}
	d.Before, d.After = d.Before+100*time.Millisecond, d.After+100*time.Millisecond
	return d
}

// here counts a point, and reports whether it is the chosen one.
func (x *takeover) here() bool { return x.armed.Load() && x.passed.Add(1) == int64(x.Point)+1 }

// strike deals the blow.
func (x *takeover) strike() {
	x.armed.Store(false)
	if x.Blow.Killed {
		x.dead.Store(true)
		x.leader.Kill()
	} else if x.Blow.Lasts > 0 {
		x.leader.Store.Halt(x.Blow.What, x.Blow.Lasts)
	}
	close(x.struck)
}

// doors watch the requests and transactions of one daemon.
type doors struct {
	*takeover
	struck bool // the blow may strike this daemon

	saving sync.Mutex
	read   time.Time // when it last read the page
	saved  bool      // it saved something since then
}

var errStruck = errors.New("the daemon was killed")

// pass is a point at which the daemon may be halted or killed.
func (d *doors) pass() error {
	if !d.struck {
		return nil
	}
	if d.here() {
		d.strike()
	}
	return d.live()
}

// live waits until the daemon is not halted; the error says that it was killed.
func (d *doors) live() error {
	if !d.struck {
		return nil
	}
	if d.leader.Store.GoOn(); d.dead.Load() {
		return errStruck
	}
	return nil
}

// reads records that the page was read.
func (d *doors) reads(at time.Time) {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.read, d.saved = at, false
}

// saves records that something was saved.
func (d *doors) saves() {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.saved = true
}

// writes checks a write that is about to be sent.
func (d *doors) writes(w claim.Write) {
	d.saving.Lock()
	defer d.saving.Unlock()
	if !d.saved && !d.Lenient {
		d.wrong("%s sent a %s that it had not saved", d.name(), sim.KindOf(&w))
	}
	if d.struck && d.deposed.Load() {
		// If all clocks stood still, the daemon cannot know for how long.
		if d.late = true; d.Blow.What != sim.Paused && !d.Lenient {
			d.wrong("%s began a %s although it was deposed", d.name(), sim.KindOf(&w))
		}
	}
}

func flightTime(w claim.Write) time.Duration {
	if sim.KindOf(&w) == sim.Openings {
		return freeUnderWay
	}
	return underWay
}

// sends records a write that is sent.
func (d *doors) sends(w claim.Write, onItsWay bool) {
	lands := time.Now().Add(100 * time.Millisecond)
	if onItsWay {
		lands = lands.Add(flightTime(w))
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	d.takeover.mu.Lock()
	defer d.takeover.mu.Unlock()
	d.flights = append(d.flights, flight{d.read, lands})
	d.late = d.late || d.struck && d.deposed.Load()
}

func (d *doors) name() string {
	if d.struck {
		return "the former leader"
	}
	return "the next leader"
}

type doorStore struct {
	claim.Store
	*doors
}

func (s doorStore) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if err := s.pass(); err != nil {
		return claim.Reading{}, err
	}
	began := time.Now()
	r, err := s.Store.Get(ctx, id)
	s.reads(began)
	return r, errors.Join(err, s.pass())
}

func (s doorStore) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	s.writes(w)
	before, onItsWay := s.struck && s.here(), s.struck && s.here()
	switch {
	case before:
		s.strike()
	case onItsWay:
		s.takeover.mu.Lock()
		s.next.Before = flightTime(w)
		s.takeover.mu.Unlock()
		time.AfterFunc(200*time.Millisecond, s.strike)
	}
	if err := s.live(); err != nil {
		return claim.Reading{}, err
	}
	s.sends(w, onItsWay)
	r, err := s.Store.Write(ctx, id, w)
	return r, errors.Join(err, s.pass())
}

type doorLedger struct {
	claim.Ledger
	*doors
}

// transact runs one transaction, with a point before and after it.
func (l doorLedger) transact(do func() error) error {
	if err := l.pass(); err != nil {
		return err
	}
	err := do()
	if err == nil {
		l.saves()
	}
	return errors.Join(err, l.pass())
}

func (l doorLedger) Reserve(ctx context.Context, c claim.Hold, now time.Time, limit int) (fence int64, refusal *claim.Refusal, err error) {
	err = l.transact(func() (err error) {
		fence, refusal, err = l.Ledger.Reserve(ctx, c, now, limit)
		return err
	})
	return fence, refusal, err
}

func (l doorLedger) Save(ctx context.Context, ch claim.Change) error {
	return l.transact(func() error { return l.Ledger.Save(ctx, ch) })
}

// deed is an act of a leader. Another daemon may take over at any point of it.
type deed struct {
	first  func(*task.Task)                 // what the page is like
	before func(*takeover, context.Context) // what led up to it
	act    func(*takeover, context.Context)
}

// Deeds are the deeds that the explorer of takeovers tries.
var Deeds = map[string]deed{
	"claim":                {act: (*takeover).claims},
	"override":             {first: stale, act: (*takeover).claims},
	"completion":           {before: (*takeover).claims, act: finishes(claim.EndCompleted)},
	"release":              {before: (*takeover).claims, act: finishes(claim.EndReleased)},
	"release past the end": {before: (*takeover).outlast, act: finishes(claim.EndReleased)},
	"renewal":              {before: (*takeover).holdOn, act: (*takeover).renews},
	"sweep":                {first: stale, act: (*takeover).sweeps},
	"withdrawal":           {before: (*takeover).leave, act: (*takeover).runs},
	"repair":               {before: (*takeover).cover, act: (*takeover).guards},
	"gesture":              {before: (*takeover).handOut, act: (*takeover).guards},
	"undo":                 {before: (*takeover).undo, act: (*takeover).tidies},
	"reopening":            {first: blocked, act: (*takeover).reopens},
	"reopening of a name":  {first: named, act: (*takeover).reopens},
}

func stale(t *task.Task) {
	t.Status, t.ClaimedBy, t.ClaimedAt = task.InProgress, "Ghost", time.Now().Add(-2*time.Hour)
	t.Token = string(claim.NewID(t.ClaimedAt))
}

func blocked(t *task.Task) { t.Status = task.Blocked }

func named(t *task.Task) {
	stale(t)
	t.Status = task.Blocked
}

func (x *takeover) claims(ctx context.Context) {
	x.sandman.ask(claim.Request{}, func() (claim.Hold, error) {
		return x.leader.Claim(ctx, claim.Request{Agent: x.sandman.name, Task: task.Task{ID: x.pages[0]}})
	})
}

// holdOn holds the task until its lease may be renewed.
func (x *takeover) holdOn(ctx context.Context) {
	x.claims(ctx)
	time.Sleep(70 * time.Second)
}

// outlast holds the task until its lease is over but not yet stale.
func (x *takeover) outlast(ctx context.Context) {
	x.claims(ctx)
	time.Sleep(time.Until(x.Policy.LeaseEnd(x.register.Page(x.pages[0])).Add(time.Second)))
}

// held returns the claim that the agent holds or is finishing.
func (x *takeover) held() claim.Hold {
	live, _, _ := x.ledger.Live(context.Background())
	return live[0]
}

func finishes(as claim.Ending) func(*takeover, context.Context) {
	return func(x *takeover, ctx context.Context) { x.sandman.finish(ctx, x.held(), claim.Finish{As: as}) }
}

func (x *takeover) renews(ctx context.Context) { _, _ = x.leader.Renew(ctx, x.held().ID) }

func (x *takeover) sweeps(ctx context.Context) { _, _, _ = x.leader.Sweep(ctx, x.pages[0]) }

func (x *takeover) guards(ctx context.Context) { _ = x.leader.Guard(ctx, x.held().ID, nil) }

func (x *takeover) reopens(ctx context.Context) {
	_, _, _ = x.leader.Reopen(ctx, claim.Reopening{Task: task.Task{ID: x.pages[0]}, Agent: "Nyx"})
}

// leave makes the leader find a claim that an earlier daemon wrote just before it ended.
func (x *takeover) leave(ctx context.Context) {
	now := time.Now()
	c := claim.Hold{
		ID: claim.NewID(now), Agent: "Ghost", Task: x.register.Page(x.pages[0]), State: claim.Writing, Reserved: now,
		Lease: claim.Lease{ClaimedAt: now, Timeout: x.Policy.Timeout},
	}
	_, _, _ = x.ledger.Reserve(ctx, c, now, 0)
	x.edit(x.pages[0], func(t *task.Task) bool {
		t.Status, t.ClaimedBy, t.ClaimedAt, t.Token = task.InProgress, c.Agent, now, string(c.ID)
		return false
	})
	_ = x.leader.Restart(ctx)
}

// runs takes the due steps for a minute.
func (x *takeover) runs(ctx context.Context) {
	for range 60 {
		_, _ = x.leader.RunDue(ctx)
		time.Sleep(time.Second)
	}
}

// cover writes a claim that is being withdrawn over the held one.
func (x *takeover) cover(ctx context.Context) {
	x.claims(ctx)
	x.edit(x.pages[0], func(t *task.Task) bool {
		t.Token = "void " + string(claim.NewID(time.Now()))
		return false
	})
}

// handOut has a person reopen the held task.
func (x *takeover) handOut(ctx context.Context) {
	x.claims(ctx)
	x.edit(x.pages[0], func(t *task.Task) bool { t.Status = task.Open; return true })
}

// undo has a person restore a claim that is over.
func (x *takeover) undo(ctx context.Context) {
	x.claims(ctx)
	was := x.register.Page(x.pages[0])
	x.sandman.finish(ctx, x.held(), claim.Finish{As: claim.EndReleased})
	x.edit(x.pages[0], func(t *task.Task) bool { *t = was; return true })
}

func (x *takeover) tidies(ctx context.Context) {
	_, _ = x.leader.Tidy(ctx, x.register.Page(x.pages[0]))
	x.runs(ctx)
}

// leading is the policy of a leader, which is the only claimer.
func leading() claim.Policy {
	p := RacePolicy()
	p.Exclusive, p.Settle = true, 0
	return p
}

// takenOver has a leader be deposed at every point of a deed, in one way, and returns how many
// points there were, and what went wrong.
func takenOver(t *testing.T, o Takeover) (points int, wrong []string) {
	t.Helper()
	for o.Point = 0; ; o.Point++ {
		var race Race
		struck := false
		synctest.Test(t, func(t *testing.T) { race, struck = o.Run(t.Context()) })
		if !struck {
			return o.Point, wrong
		}
		found := race.Book.Wrong()
		if doubles := race.doubles(); !race.Freed && doubles != "" {
			found = append(found, doubles)
		}
		for _, w := range found {
			wrong = append(wrong, fmt.Sprintf("%s, %v at point %d, edit %v: %s", o.Deed, o.Blow, o.Point, o.Edit, w))
		}
		if testing.Verbose() && len(found) > 0 && *seed != 0 {
			t.Logf("%v", race)
		}
	}
}

// takeovers are the kinds of takeovers at a deed, those first that tell most.
func takeovers(deed string) []Takeover {
	var all []Takeover
	for _, policy := range []claim.Policy{leading(), RacePolicy()} {
		for _, edit := range []bool{false, true} {
			for _, blow := range Blows {
				all = append(all, Takeover{Deed: deed, Blow: blow, Edit: edit, Policy: policy})
			}
		}
	}
	all[3], all[len(Blows)] = all[len(Blows)], all[3] // an edit among the first
	return all
}

// At whatever point of whatever it does a leader is killed, stands still or is deposed: the
// next one goes on, and no two agents have the task at the same time.
func TestTakeovers(t *testing.T) {
	for _, deed := range slices.Sorted(maps.Keys(Deeds)) {
		t.Run(deed, func(t *testing.T) {
			t.Parallel()
			walks := 0
			for i, o := range takeovers(deed) {
				if i >= 4 && !testkit.InFull() || i >= 2 && (testing.Short() || testkit.Race) {
					break
				}
				points, wrong := takenOver(t, o)
				walks += points
				for _, w := range wrong {
					t.Error(w)
				}
			}
			t.Logf("%d walks", walks)
		})
	}
}

// Ways of taking over that do not work. The explorer finds each out by the rule that nothing
// is sent before it is saved, or after the epoch; and those with harm also by what comes of it.
var takeoverMutants = map[string]struct {
	deed   string
	mutate func(*sim.DaemonOptions)
	harm   bool
}{
	"no epoch":                           {"claim", noEpoch, true},
	"sent before it is saved":            {"claim", sentBeforeSaved, true},
	"finished without asking the ledger": {"release", notAsserted, false},
	"renewed without asking the ledger":  {"renewal", notAsserted, false},
	"marked without asking the ledger":   {"withdrawal", notAsserted, false},
	"a clearing sent before it is saved": {"sweep", sentBeforeSaved, true},
	"released a second time at once":     {"release", freedTwice, true},
	"taken off a second time at once":    {"withdrawal", freedTwice, true},
}

func TestTakeoverMutants(t *testing.T) {
	for name, m := range takeoverMutants {
		for _, lenient := range []bool{false, true} {
			if lenient && !m.harm {
				continue
			}
			t.Run(fmt.Sprint(name, ", by its harm: ", lenient), func(t *testing.T) {
				t.Parallel()
				for _, o := range takeovers(m.deed) {
					o.Mutate, o.Lenient = m.mutate, lenient
					if _, wrong := takenOver(t, o); len(wrong) > 0 {
						t.Logf("caught: %s", wrong[0])
						return
					}
				}
				t.Error("survived")
			})
		}
	}
}

// freedTwice frees a task again while the first write that was to may be on its way.
func freedTwice(d *sim.DaemonOptions) {
	d.Cases = slices.DeleteFunc(claim.Protocol(), func(c claim.Case) bool { return strings.HasPrefix(c.Then, "look again, until") })
}

// noEpoch lets a former leader change the ledger.
func noEpoch(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger {
		l = l.(*sim.Term).Ledger
		if rest != nil {
			l = rest(l)
		}
		return l
	}
}

// sentBeforeSaved saves what is to be written to a page only when it was sent.
func sentBeforeSaved(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger { return hastyLedger{rest(l)} }
}

type hastyLedger struct{ claim.Ledger }

func (l hastyLedger) Save(ctx context.Context, ch claim.Change) error {
	writing := slices.ContainsFunc(ch.Holds, func(h claim.Hold) bool { return h.State == claim.Writing })
	clearing := slices.ContainsFunc(ch.Marks, func(m claim.Mark) bool { return m.State == claim.Clearing })
	if !writing && !clearing {
		return l.Ledger.Save(ctx, ch)
	}
	time.AfterFunc(500*time.Millisecond, func() { _ = l.Ledger.Save(context.WithoutCancel(ctx), ch) })
	return nil
}

// notAsserted takes for granted that the ledger takes what is done.
func notAsserted(d *sim.DaemonOptions) {
	rest := d.Journal
	d.Journal = func(l claim.Ledger) claim.Ledger { return trustingLedger{rest(l)} }
}

type trustingLedger struct{ claim.Ledger }

func (l trustingLedger) Save(ctx context.Context, ch claim.Change) error {
	if len(ch.Holds)+len(ch.Marks)+len(ch.Facts) == 0 {
		return nil
	}
	return l.Ledger.Save(ctx, ch)
}
