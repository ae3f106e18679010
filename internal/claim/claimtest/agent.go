package claimtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/claimsim"
	"dibs/internal/task"
)

// agent is one that comes for the task again and again.
type agent struct {
	*race
	rand   *rand.Rand
	number int
	name   string
	daemon *node
}

func (a *agent) run(ctx context.Context) {
	_ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, a.rush))
	for ; time.Since(a.began) < raceTime; _ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, 20*time.Second)) {
		c, ok := a.claim(ctx)
		if !ok {
			_ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, 30*time.Second))
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
		ctx, cancel = context.WithTimeout(ctx, claimsim.UpTo(a.rand, 6*time.Second))
		defer cancel()
	}
	lease := []time.Duration{0, 0, 2 * time.Minute, 150 * time.Second, 3 * time.Minute}[a.rand.IntN(5)]
	op := a.call(Operation{Kind: OpClaim})
	c, err := a.daemon.Load().Claim(ctx, claim.Request{
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
		_ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, 30*time.Second))
	case 1: // forgets to renew, and is late
		_ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, 5*time.Minute))
	case 2: // vanishes
		return false
	default: // shows that it is alive, now and then
		for range a.rand.IntN(10) {
			_ = claimsim.Sleep(ctx, 5*time.Second+claimsim.UpTo(a.rand, 25*time.Second))
			renewed, err := a.daemon.Load().Renew(ctx, c.ID)
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
		got, err := a.daemon.Load().Finish(ctx, c.ID, f)
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
		_ = claimsim.Sleep(ctx, claimsim.UpTo(a.rand, 20*time.Second))
	}
}
