package claimtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
	"dibs/internal/task"
)

// meet is another kind of race: everybody meets when a claim's lease ends. The holder renews or
// finishes the claim at the last moment or after it, or is never heard of again. Daemons sweep
// the task, agents take it over, and others come for it as soon as it is free. Then it all
// happens again to the new holder.
func (r *race) meet(ctx context.Context) {
	holder := r.agent(0, r.daemons[0])
	c, ok := holder.ask(claim.Request{}, func() (claim.Hold, error) {
		return holder.daemon.Load().Claim(ctx, claim.Request{Agent: holder.name, Task: task.Task{ID: r.pages[0]}})
	})
	r.faulty.Store(true)
	if !ok {
		return
	}
	policy := holder.daemon.Load().Policy()
	leaseEnd := policy.LeaseEnd(c.Task)
	var parts sync.WaitGroup
	// about draws a moment near the end of the lease, or near the moment at which it is stale.
	about := func(rnd *rand.Rand) time.Time {
		if rnd.IntN(3) == 0 {
			return leaseEnd.Add(either(rnd, 5*time.Second))
		}
		return c.StaleAt.Add(either(rnd, 3*time.Second))
	}
	at := func(when time.Time, do func()) {
		parts.Go(func() {
			if sim.Sleep(ctx, time.Until(when)) == nil {
				do()
			}
		})
	}
	// over draws a finish: either the task can be claimed again, or it is completed.
	over := func(rnd *rand.Rand) claim.Finish {
		return claim.Finish{As: []claim.Ending{claim.EndReleased, claim.EndFailed, claim.EndCompleted}[rnd.IntN(3)], Reopen: true}
	}
	done := over(r.rand)
	finishes := func() { holder.finish(ctx, c, done) }
	switch r.rand.IntN(6) {
	case 0:
		at(about(r.rand), finishes)
	case 1: // at the last moment, or the last at which that may land a minute late
		last := leaseEnd
		if r.Seed%2 == 0 {
			last = c.StaleAt.Add(-latest)
		}
		at(last.Add(-sim.UpTo(r.rand, 4*time.Second)), finishes)
	case 2: // when somebody else may have it, or have had it
		at(c.StaleAt.Add(4*time.Second+sim.UpTo(r.rand, 20*time.Second)), finishes)
	case 3, 4:
		at(c.StaleAt.Add(2*time.Second-sim.UpTo(r.rand, 18*time.Second)), func() {
			if renewed, err := holder.daemon.Load().Renew(ctx, c.ID); err == nil {
				r.check("renewal by " + holder.name)
				holder.expires(renewed)
			}
		})
	}
	for _, n := range r.daemons {
		if r.rand.IntN(2) == 0 {
			at(about(r.rand), func() { _, _, _ = n.Load().Sweep(ctx, r.pages[0]) })
		}
	}
	end := c.StaleAt.Add(30 * time.Second)
	for i := range 3 + r.rand.IntN(4) {
		a := r.agent(1+i, r.daemons[r.rand.IntN(len(r.daemons))])
		at(about(a.rand), func() {
			for time.Now().Before(end) {
				c, ok := a.ask(claim.Request{}, func() (claim.Hold, error) {
					return a.daemon.Load().Claim(ctx, claim.Request{Agent: a.name, Task: task.Task{ID: r.pages[0]}})
				})
				if ok {
					if a.rand.IntN(2) == 0 {
						_ = sim.Sleep(ctx, sim.UpTo(a.rand, []time.Duration{2 * time.Second, 12 * time.Second}[a.rand.IntN(2)]))
						a.finish(ctx, c, over(a.rand))
					}
					return
				}
				_ = sim.Sleep(ctx, sim.UpTo(a.rand, 2*time.Second))
			}
		})
	}
	parts.Wait()
}
