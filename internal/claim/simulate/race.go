package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// page is the contested task.
const page = task.ID("11111111-1111-1111-1111-111111111111")

const (
	// latest is the longest delay of a late write. Notion ends a request after a minute; half of
	// that is late enough.
	latest = 30 * time.Second
	// aftermath is how long the world continues after a race: long enough for late writes to land
	// and be noticed, and for the grace of a withdrawal.
	aftermath = latest + 2*time.Minute
)

// race is one race, inside its bubble.
type race struct {
	Options
	contest
	seed     uint64
	register *sim.Register
	thread   *thread
	claimers int
	claiming [maxClaimers]atomic.Bool // who is claiming
	requests atomic.Int64             // sent while claiming
}

// outcome is the result of a race.
type outcome struct {
	// granted has the duration of each granted claim.
	granted []time.Duration
	// overwritten is set if another claimer's write covered a granted claim at any time after its
	// grant, lost if it still did at the end.
	overwritten, lost bool
	// requests counts the requests of all claims, granted or not.
	requests int
}

// entrant is a claimer in a race. Its store has the same name.
type entrant struct {
	// claim tries to claim the task, once, and returns whether it was granted.
	claim func(context.Context) bool
	// sync is called every sync interval; nil for a claimer by hand.
	sync func(context.Context)
}

// grant is a granted claim.
type grant struct {
	by   string // the entrant's store
	at   time.Time
	took time.Duration
}

// run runs the nth race of a contest.
func (c contest) run(o Options, n int) (result outcome) {
	inVirtualTime(func() {
		// The numbers depend on the race, not on the contest.
		draw := rand.New(rand.NewPCG(o.Seed, uint64(n)))
		r := &race{
			Options: o, contest: c, seed: draw.Uint64(),
			register: sim.NewRegister(task.Task{ID: page, Title: "Mend the roof", Status: task.Open}),
			claimers: o.Claimers.Least + draw.IntN(o.Claimers.Most-o.Claimers.Least+1),
		}
		r.thread = newThread(r.seed)
		result = r.outcome(r.race(draw))
	})
	return result
}

// race runs the claimers, waits for the aftermath, and returns the granted claims in the order of
// the claimers.
func (r *race) race(draw *rand.Rand) []grant {
	ctx, over := context.WithCancel(context.Background())
	defer over()
	grants := make([]*grant, r.claimers)
	var claims, syncs sync.WaitGroup
	for i := range r.claimers {
		e := r.enter(r, i)
		start, phase := sim.UpTo(draw, r.Spread), sim.UpTo(draw, sim.SyncInterval)
		claims.Go(func() {
			time.Sleep(start)
			began := time.Now()
			r.claiming[i].Store(true)
			granted := e.claim(ctx)
			r.claiming[i].Store(false)
			if granted {
				grants[i] = &grant{by: name(i), at: time.Now(), took: time.Since(began)}
			}
		})
		if e.sync != nil {
			syncs.Go(func() {
				for time.Sleep(phase); ctx.Err() == nil; time.Sleep(sim.SyncInterval) {
					e.sync(ctx)
				}
			})
		}
	}
	claims.Wait()
	time.Sleep(aftermath)
	over()
	syncs.Wait()

	var granted []grant
	for _, g := range grants {
		if g != nil {
			granted = append(granted, *g)
		}
	}
	return granted
}

// outcome derives the result from the register's history.
func (r *race) outcome(grants []grant) outcome {
	history := r.register.History(page)
	o := outcome{requests: int(r.requests.Load())}
	for _, g := range grants {
		o.granted = append(o.granted, g.took)
		for i, v := range history {
			last := i == len(history)-1
			if v.By != "" && v.By != g.by && (last || history[i+1].From.After(g.at)) {
				o.overwritten = true
				o.lost = o.lost || last
			}
		}
	}
	return o
}

// name returns the name of a claimer and its store.
func name(i int) string { return fmt.Sprint("claimer ", i+1) }

func (r *race) storeOptions(i int) sim.StoreOptions {
	return sim.StoreOptions{Name: name(i), Seed: r.seed, Latency: func(draw *rand.Rand) sim.Delay { return r.delay(draw, i) }}
}

// delay returns how long a request of the ith claimer takes, and counts it if it belongs to a
// claim.
func (r *race) delay(draw *rand.Rand, i int) sim.Delay {
	if r.claiming[i].Load() {
		r.requests.Add(1)
	}
	return r.Latency.delay(draw)
}

// late returns a fault that delays some of a store's claim writes.
func (r *race) late(i int) sim.Fault {
	const steps = 30
	var faults []sim.Fault
	for step := range steps {
		faults = append(faults, sim.Late(time.Duration(step+1)*latest/steps))
	}
	return sim.Sometimes(r.seed+uint64(i), r.Late, sim.Every(sim.Claims), faults...)
}

// store returns the store of a claimer by hand.
func (r *race) store(i int) claim.Store {
	return r.late(i)(r.register.Store(r.storeOptions(i)))
}

// contest is a way of claiming that is tried in races.
type contest struct {
	protocol string
	// settle is the settle wait of dibs, nil for a protocol by hand.
	settle *time.Duration
	// enter makes the ith claimer of a race.
	enter func(r *race, i int) entrant
}

// contests returns the rows of the report.
func (o Options) contests() []contest {
	var all []contest
	for _, settle := range o.Settles {
		all = append(all, contest{protocol: "dibs", settle: &settle, enter: (*race).daemon})
	}
	return append(all,
		contest{protocol: "write, read back at once", enter: (*race).readBack},
		contest{protocol: fmt.Sprintf("name as token, read back after %v", nameWait), enter: (*race).nameAsToken},
		contest{protocol: fmt.Sprintf("lowest comment id after %v", commentWait), enter: (*race).lowestComment},
	)
}

// daemon returns a claimer of dibs.
func (r *race) daemon(i int) entrant {
	d := r.register.Daemon(sim.DaemonOptions{
		StoreOptions: r.storeOptions(i), Policy: r.policy(*r.settle), Fault: r.late(i),
	})
	return entrant{
		claim: func(ctx context.Context) bool {
			_, err := d.Claim(ctx, claim.Request{Agent: name(i), Task: task.Task{ID: page}})
			return err == nil
		},
		// The next sync repairs a failure, or the outcome shows it.
		sync: func(ctx context.Context) { _ = d.Sync(ctx) },
	}
}

// open reports whether a claimer by hand finds the task open.
func open(ctx context.Context, s claim.Store) bool {
	r, err := s.Get(ctx, page)
	return err == nil && r.Task.Status == task.Open && r.Task.ClaimedBy == ""
}

// put writes a claim by hand.
func put(ctx context.Context, s claim.Store, agent, token string) error {
	_, err := s.Write(ctx, page, claim.Write{
		Status: new(task.InProgress), ClaimedBy: new(agent), ClaimedAt: new(s.Now()), Token: new(token),
	})
	return err
}

// readBack writes a claim with its own token, reads it back at once, and trusts the result. It
// gives up if a request fails.
func (r *race) readBack(i int) entrant {
	s := r.store(i)
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || put(ctx, s, name(i), name(i)) != nil {
			return false
		}
		got, err := s.Get(ctx, page)
		return err == nil && got.Task.Token == name(i)
	}}
}

// nameWait is how long nameAsToken waits. With a unique token it would suffice as a settle wait:
// the wait is not the fault of that protocol.
const nameWait = 3 * time.Second

// nameAsToken writes the agent's name, waits, reads back, and takes its name as proof that its
// write was the last. Two sessions share each name, as when one account runs two.
func (r *race) nameAsToken(i int) entrant {
	s, agent := r.store(i), name(i/2)
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || put(ctx, s, agent, "") != nil {
			return false
		}
		time.Sleep(nameWait)
		got, err := s.Get(ctx, page)
		return err == nil && got.Task.ClaimedBy == agent
	}}
}

// commentWait is how long lowestComment waits before it reads the comments.
const commentWait = 5 * time.Second

// lowestComment comments on an open task, waits, and reads the comments. If its own has the lowest
// id, it has won and writes its claim without verifying it. It gives up if its comment fails.
func (r *race) lowestComment(i int) entrant {
	s := r.store(i)
	draw := rand.New(rand.NewPCG(r.seed, uint64(i)))
	return entrant{claim: func(ctx context.Context) bool {
		if !open(ctx, s) || r.post(draw, i) != nil {
			return false
		}
		time.Sleep(commentWait)
		if r.lowest(draw, i) != name(i) {
			return false
		}
		_ = put(ctx, s, name(i), name(i))
		return true
	}}
}

// thread has the comments on the task of a race.
type thread struct {
	mu       sync.Mutex
	ids      *rand.Rand
	lowestID uint64
	lowestBy string
}

func newThread(seed uint64) *thread {
	return &thread{ids: rand.New(rand.NewPCG(seed, 0))}
}

// add adds a comment. Its id is the server's UUID, which does not tell which comment came first.
func (t *thread) add(by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id := t.ids.Uint64(); t.lowestBy == "" || id < t.lowestID {
		t.lowestID, t.lowestBy = id, by
	}
}

// post sends a comment of the ith claimer, which may land late like a claim write.
func (r *race) post(draw *rand.Rand, i int) error {
	if draw.Float64() < r.Late {
		time.AfterFunc(sim.UpTo(draw, latest), func() { r.thread.add(name(i)) })
		return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "comment on %s: connection reset", page)
	}
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.add(name(i))
	time.Sleep(d.After)
	return nil
}

// lowest returns the author of the comment with the lowest id, read by the ith claimer.
func (r *race) lowest(draw *rand.Rand, i int) string {
	d := r.delay(draw, i)
	time.Sleep(d.Before)
	r.thread.mu.Lock()
	by := r.thread.lowestBy
	r.thread.mu.Unlock()
	time.Sleep(d.After)
	return by
}
