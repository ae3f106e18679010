package claimtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// agent claims tasks again and again.
type agent struct {
	*race
	rand   *rand.Rand
	number int
	name   string
	daemon *node
}

// agent returns the i-th agent, which works through the daemon of n.
func (r *race) agent(i int, n *node) *agent {
	names := []string{"Sandman", "Oracle", "Hypnos", "Morpheus", "Phantasos", "Phobetor"}
	return &agent{
		race: r, rand: rand.New(rand.NewPCG(r.Seed, 1+uint64(i))), number: i,
		name: names[r.rand.IntN(len(names))], daemon: n,
	}
}

func (a *agent) run(ctx context.Context) {
	_ = sim.Sleep(ctx, sim.UpTo(a.rand, a.rush))
	if a.hasty {
		a.hurry(ctx)
		return
	}
	for ; time.Since(a.began) < raceTime; _ = sim.Sleep(ctx, sim.UpTo(a.rand, 20*time.Second)) {
		c, ok := a.claim(ctx)
		if !ok {
			_ = sim.Sleep(ctx, sim.UpTo(a.rand, 30*time.Second))
			continue
		}
		if a.work(ctx, c) {
			a.finish(ctx, c, a.outcome())
		}
	}
}

// hurry is run for quick agents: many come for a task as soon as it is free.
func (a *agent) hurry(ctx context.Context) {
	for ; time.Since(a.began) < hurryTime; _ = sim.Sleep(ctx, sim.UpTo(a.rand, 1500*time.Millisecond)) {
		if c, ok := a.claim(ctx); ok {
			_ = sim.Sleep(ctx, sim.UpTo(a.rand, 10*time.Second))
			a.finish(ctx, c, claim.Finish{As: claim.EndReleased})
		}
	}
}

// claim asks for a task; one time in ten it gives up early.
func (a *agent) claim(ctx context.Context) (claim.Hold, bool) {
	if a.rand.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sim.UpTo(a.rand, 6*time.Second))
		defer cancel()
	}
	r := claim.Request{
		Agent: a.name, Task: task.Task{ID: a.pages[a.rand.IntN(len(a.pages))]}, Keep: a.rand.IntN(3) == 0,
		Timeout: []time.Duration{0, 0, 2 * time.Minute, 150 * time.Second, 3 * time.Minute}[a.rand.IntN(5)],
	}
	how := a.rand.IntN(3)
	return a.ask(r, func() (claim.Hold, error) {
		switch {
		case how == 0:
			return a.keyed(ctx, r)
		case how == 1 && len(a.pages) > 1:
			return a.daemon.Load().Next(ctx, r)
		}
		return a.daemon.Load().Claim(ctx, r)
	})
}

// ask makes a request for a task and records it.
func (a *agent) ask(r claim.Request, claims func() (claim.Hold, error)) (claim.Hold, bool) {
	op := a.call(Operation{Kind: OpClaim})
	c, err := claims()
	op.Claim, op.Task, op.OK = c.ID, c.Task.ID, err == nil
	a.returned(op)
	if err != nil {
		return claim.Hold{}, false
	}
	a.mu.Lock()
	a.Granted++
	a.books.told[c.ID] = true
	a.mu.Unlock()
	a.check("grant to " + a.name)
	a.expires(c)
	return c, true
}

// keyed asks for a task under an idempotency key, and repeats the request until there is an
// answer. The id of the claim is bound to the key before the attempt. A repeated request is
// answered with the outcome of that claim, unless it had none.
func (a *agent) keyed(ctx context.Context, r claim.Request) (claim.Hold, error) {
	var bound []claim.ID
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.books.keys = append(a.books.keys, bound)
	}()
	r.Keep = true
	var err error
	for range 2 + a.rand.IntN(4) {
		d := a.daemon.Load()
		var c claim.Hold
		if n := len(bound); n > 0 {
			c, err = d.Find(ctx, bound[n-1])
			left, marked := d.Mark(bound[n-1])
			switch {
			case errors.Is(err, claim.ErrUnknownClaim):
			case err != nil:
				return claim.Hold{}, err
			case c.State == claim.Held:
				return c, nil
			case c.State == claim.Finishing, c.State == claim.Ended && c.Ending != claim.EndNotGranted:
				return claim.Hold{}, &claim.Lost{Claim: c, Detail: "it has ended"}
			case c.State != claim.Ended, marked && left.State != claim.Unseen:
				_ = sim.Sleep(ctx, sim.UpTo(a.rand, 10*time.Second))
				continue
			}
		}
		r.ID = claim.NewID(d.Store.Now())
		bound = append(bound, r.ID)
		patient, cancel := context.WithTimeout(ctx, 2*time.Second+sim.UpTo(a.rand, 20*time.Second))
		c, err = d.Claim(patient, r)
		heard := patient.Err() == nil
		cancel()
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if heard && (err == nil || isDenied && denied.Code != claim.CodeNotionUnavailable) {
			return c, err
		}
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 5*time.Second))
	}
	if err == nil {
		err = context.DeadlineExceeded
	}
	return claim.Hold{}, err
}

// work simulates the agent's work, and reports whether the agent comes back to finish it.
func (a *agent) work(ctx context.Context, c claim.Hold) bool {
	switch a.rand.IntN(6) {
	case 0: // is quick
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 30*time.Second))
	case 1: // forgets to renew, and is late
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 5*time.Minute))
	case 2: // vanishes
		return false
	default: // shows that it is alive, now and then
		for range a.rand.IntN(10) {
			_ = sim.Sleep(ctx, 5*time.Second+sim.UpTo(a.rand, 25*time.Second))
			renewed, err := a.daemon.Load().Renew(ctx, c.ID)
			if _, ok := errors.AsType[*claim.Lost](err); ok {
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

// outcome draws what the agent says about its work.
func (a *agent) outcome() claim.Finish {
	f := claim.Finish{
		As:     []claim.Ending{claim.EndCompleted, claim.EndFailed, claim.EndBlocked, claim.EndReleased, claim.EndReleased}[a.rand.IntN(5)],
		Reopen: a.rand.IntN(2) == 0,
	}
	switch {
	case f.As == claim.EndCompleted && f.Reopen:
		f.As = claim.EndReview
	case f.As == claim.EndReleased && f.Reopen:
		f.By = "Ada" // a person takes it back
	}
	return f
}

// finish reports that the agent is done, and repeats that while the claim has not ended.
func (a *agent) finish(ctx context.Context, c claim.Hold, f claim.Finish) {
	op := a.call(Operation{Kind: OpFinish, Claim: c.ID})
	defer func() { a.returned(op) }()
	for range 1 + a.rand.IntN(3) {
		got, err := a.daemon.Load().Finish(ctx, c.ID, f)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.books.accepted[c.ID] = f.Ending()
		a.mu.Unlock()
		if op.OK = true; got.State == claim.Ended {
			if got.Ending != f.Ending() {
				a.mu.Lock()
				a.wrong("%s finished its claim as %s, and it ended as %s", a.name, f.Ending(), got.Ending)
				a.mu.Unlock()
			}
			return
		}
		_ = sim.Sleep(ctx, sim.UpTo(a.rand, 20*time.Second))
	}
}
