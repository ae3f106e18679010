package arbiter_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitersim"
	"dibs/internal/clock"
	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
)

// sender is a transport in the terms of a Budget.
type sender struct{ *transport.Transport }

func (s sender) Load() (counting, waiting int) {
	u := s.Use()
	return u.Sent + u.Held, u.Waiting
}

// counter is Notion: it counts what arrives.
type counter struct {
	mu sync.Mutex
	at []time.Time
}

func (c *counter) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

// most is how many requests arrived at most within a minute, wherever it begins.
func (c *counter) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.at, time.Time.Compare)
	most, first := 0, 0
	for i, at := range c.at {
		for at.Sub(c.at[first]) >= time.Minute {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// since is how many arrived after a moment.
func (c *counter) since(from time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, at := range c.at {
		if at.After(from) {
			n++
		}
	}
	return n
}

// part is a daemon of the simulation.
type part struct {
	counter
	budget  *arbiter.Budget
	carrier *transport.Transport
	began   time.Time
	load    atomic.Int64 // how many workers send as fast as they can
	stopped atomic.Bool  // as by SIGSTOP
	asleep  atomic.Bool  // with the machine, whose monotonic clock stands still
	slept   atomic.Int64 // for how long it did
	away    atomic.Bool  // cut off from etcd
	kill    context.CancelFunc
}

// paused is what a process that is stopped does.
func (p *part) paused() {
	for p.stopped.Load() {
		time.Sleep(100 * time.Millisecond)
		if p.asleep.Load() {
			p.slept.Add(int64(100 * time.Millisecond))
		}
	}
}

// clocks are those of its machine.
func (p *part) clocks() clock.Instant {
	i := clock.Local(p.began)
	i.Mono -= time.Duration(p.slept.Load())
	return i
}

// stoppable is a pool as a process that may be stopped sees it.
type stoppable struct {
	arbiter.Pool
	part *part
}

func (s stoppable) Extend(ctx context.Context, run string) (arbiter.Standing, error) {
	s.part.paused()
	defer s.part.paused()
	return s.Pool.Extend(ctx, run)
}

func (s stoppable) Change(ctx context.Context, run string, c arbiter.Change) (bool, error) {
	s.part.paused()
	defer s.part.paused()
	return s.Pool.Change(ctx, run, c)
}

// budgetWorld is daemons, their pool, and Notion.
type budgetWorld struct {
	t      *testing.T
	ctx    context.Context
	all    counter
	pool   *arbitersim.Pool
	rate   float64
	burst  int
	seed   uint64
	faults arbitersim.Faults
	notion http.RoundTripper // what answers; nil for nothing that could refuse
	parts  []*part
	wait   sync.WaitGroup
	end    context.CancelFunc
}

const workers = 16

// begin begins a daemon.
func (w *budgetWorld) begin() *part {
	w.t.Helper()
	p := &part{began: time.Now()}
	ctx, kill := context.WithCancel(w.ctx)
	p.kill = kill
	w.seed++
	random := rand.New(rand.NewPCG(w.seed, 5))
	var mu sync.Mutex
	some := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(d)))
	}
	var err error
	p.carrier, err = transport.New(transport.Options{Rate: w.rate, Burst: w.burst, Transport: transporttest.Server(func(r *http.Request) (*http.Response, error) {
		time.Sleep(some(time.Second))
		w.all.arrived()
		p.arrived()
		if w.notion != nil {
			return w.notion.RoundTrip(r)
		}
		return transporttest.Reply(200, "{}"), nil
	})})
	if err != nil {
		w.t.Fatal(err)
	}
	faults := w.faults
	faults.Seed, faults.Away = w.seed, p.away.Load
	p.budget = arbiter.NewBudget(arbiter.BudgetConfig{
		Sender: sender{p.carrier}, Pool: stoppable{arbitersim.FaultyPool(w.pool, faults), p}, Rate: func() float64 { return w.rate },
		Clocks: p.clocks,
	})
	p.budget.Round(ctx)
	w.wait.Go(func() { p.budget.Run(ctx) })
	for i := range workers {
		w.wait.Go(func() { p.work(ctx, i, some) })
	}
	w.parts = append(w.parts, p)
	return p
}

// work sends requests, some of them two at a time, and some of those late.
func (p *part) work(ctx context.Context, i int, some func(time.Duration) time.Duration) {
	for ctx.Err() == nil {
		p.paused()
		if int64(i) >= p.load.Load() {
			time.Sleep(time.Second)
			continue
		}
		use, done := context.WithCancel(ctx)
		if i%4 == 0 {
			if permitted, err := p.carrier.Permit(use, 2); err == nil {
				use = permitted
				time.Sleep(some(6 * time.Second))
				p.paused()
			}
		}
		for range 2 {
			req, err := http.NewRequestWithContext(use, http.MethodGet, transport.DefaultBaseURL+transporttest.PagePath, nil)
			if err != nil {
				panic(err)
			}
			if _, err := p.carrier.RoundTrip(req); err != nil {
				time.Sleep(time.Second)
			}
		}
		done()
	}
}

// stop ends all daemons.
func (w *budgetWorld) stop() {
	for _, p := range w.parts {
		p.stopped.Store(false)
	}
	w.end()
	w.wait.Wait()
}

func inBudgetWorld(t *testing.T, seed uint64, faults arbitersim.Faults, test func(w *budgetWorld, random *rand.Rand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &budgetWorld{t: t, ctx: ctx, pool: arbitersim.NewPool(arbiter.SlotTime), rate: 3, burst: 10, seed: seed * 1000, faults: faults}
		w.end = cancel
		test(w, rand.New(rand.NewPCG(seed, 1)))
		w.stop()
		if most := w.all.most(); float64(most) > w.rate*60 {
			t.Errorf("%d requests within a minute, want at most %v", most, w.rate*60)
		}
	})
}
