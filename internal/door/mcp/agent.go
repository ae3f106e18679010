package mcp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

// agent is an agent that a bridge works for, with the claims that it knows of.
type agent struct {
	name string

	mu     sync.Mutex             // guards all below
	claims map[claim.ID]api.Claim // those that the agent knows that it holds
	lost   []api.Claim            // those whose end the agent has yet to be told
}

// granted records claims that the agent knows it holds.
func (a *agent) granted(claims ...api.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range claims {
		if c.State == claim.Held {
			a.claims[c.ID] = c
		}
	}
}

// done records that the agent itself ended a claim.
func (a *agent) done(id claim.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.claims, id)
}

// news returns the lost claims that the agent has yet to be told of, each once.
func (a *agent) news() []api.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	news := a.lost
	a.lost = nil
	return news
}

// refresh compares the agent's claims with the daemon's. This bridge takes over claims whose keeper
// is gone, and records those that ended. It returns the held claims, and how many were found to
// have ended.
func (b *Bridge) refresh(ctx context.Context, a *agent) (held []api.Claim, over int, err error) {
	daemon, err := b.options.Daemon()
	if err != nil {
		return nil, 0, err
	}
	if held, err = heldBy(ctx, daemon, a.name); err != nil {
		return nil, 0, err
	}
	for _, c := range held {
		// A claim whose keeper lives, or that never had one, is left as it is.
		renewal := api.RenewRequest{Agent: a.name, Orphaned: true, Keeper: b.keeper()}
		if b.remote.Load() { // only this bridge can renew its claims
			renewal.Orphaned = false
			if !a.knows(c.ID) {
				continue
			}
		}
		if _, err := daemon.Renew(ctx, string(c.ID), renewal, ""); b.isRemote(err) {
			return b.refresh(ctx, a)
		} else if err != nil {
			b.options.Log.Debug("a claim could not be taken over", "claim", c.ID, "error", err)
		}
	}
	a.mu.Lock()
	for _, c := range held {
		if a.claims[c.ID].State == claim.Held {
			a.claims[c.ID] = c // with its lease as it is now
		}
	}
	missing := make([]api.Claim, 0, len(a.claims))
	for id, c := range a.claims {
		if !slices.ContainsFunc(held, func(h api.Claim) bool { return h.ID == id }) {
			missing = append(missing, c)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(missing, func(x, y api.Claim) int { return cmp.Compare(x.ID, y.ID) })
	for _, c := range missing {
		is, err := daemon.Lookup(ctx, string(c.ID), "")
		p, refused := errors.AsType[*api.Problem](err)
		switch {
		case refused && p.Code == api.CodeUnknownClaim:
			is = c
			is.Outcome, is.Detail = claim.EndLost, "the daemon no longer knows it"
		case err != nil:
			return held, over, err
		case is.State == claim.Held: // it is held again
			continue
		case c.State == claim.Finishing && is.State == claim.Finishing:
			continue
		case c.State == claim.Finishing && is.Outcome == c.Outcome: // as the agent asked
			a.done(c.ID)
			continue
		}
		if a.ended(is) {
			over++
		}
	}
	return held, over, nil
}

// heldBy returns the claims that an agent holds.
func heldBy(ctx context.Context, daemon *client.Client, name string) ([]api.Claim, error) {
	list, err := daemon.Claims(ctx, name)
	return slices.DeleteFunc(list.Claims, func(c api.Claim) bool { return c.State != claim.Held }), err
}

// ended records the end of a claim that the agent did not end itself. It returns false if the claim
// is not among the known ones.
func (a *agent) ended(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.claims[c.ID]; !known {
		return false
	}
	delete(a.claims, c.ID)
	a.lost = append(a.lost, c)
	return true
}

// knows reports whether the agent knows that it holds a claim.
func (a *agent) knows(id claim.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.claims[id]
	return known
}

// isRemote reports whether an error says that the daemon is on another machine, where it cannot see
// this process. The request is then repeated without the process, and this bridge renews the
// claims.
func (b *Bridge) isRemote(err error) bool {
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || p.Code != api.CodeOtherMachine {
		return false
	}
	b.remote.Store(true)
	return true
}

// process returns the number of this process; 0 if the daemon cannot see it.
func (b *Bridge) process() int {
	if b.remote.Load() {
		return 0
	}
	return b.pid
}

// keeper returns this process as the keeper of claims.
func (b *Bridge) keeper() api.Keeper {
	if b.remote.Load() {
		return api.Keeper{}
	}
	return api.Keeper{PID: b.pid, GraceSeconds: b.options.Grace.Seconds()}
}

// watch refreshes an agent's claims until the bridge ends, and tells the client which ones were
// lost.
func (b *Bridge) watch(a *agent) {
	loop := clock.NewLoop(0, func(ctx context.Context) time.Duration {
		_, over, err := b.refresh(ctx, a)
		if err != nil && ctx.Err() == nil {
			b.options.Log.Debug("claims could not be refreshed", "agent", a.name, "error", err)
		}
		if over > 0 {
			b.push(ctx, a)
		}
		return refreshInterval
	})
	b.background.Go(func() { b.listen(a.name, loop) })
	loop.Run(b.over)
}

// listen wakes a loop when something happened to a claim of the agent's.
func (b *Bridge) listen(name string, loop *clock.Loop) {
	for b.over.Err() == nil {
		var err error
		var daemon *client.Client
		if daemon, err = b.options.Daemon(); err == nil {
			_, err = daemon.Events(b.over, api.EventFilter{After: api.EventsFuture, Agent: name, Patient: true}, true, func(api.Event) error {
				loop.Wake()
				return nil
			})
		}
		if err != nil {
			b.options.Log.Debug("the daemon's events could not be followed", "agent", name, "error", err)
		}
		clock.Pause(b.over, refreshInterval/3)
	}
}

// learns records that the agent holds a claim, or ended one whose end is still owed to Notion: it must
// be told if that fails. It reports whether the claim is news.
func (a *agent) learns(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.claims[c.ID]
	a.claims[c.ID] = c
	return !known
}
