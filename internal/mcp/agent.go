package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/clock"
)

// agent is one that a bridge works for, and what it knows of its claims.
type agent struct {
	name string

	mu   sync.Mutex             // guards all below
	told map[claim.ID]api.Claim // those that it knows to hold
	lost []api.Claim            // those that it has to be told are over
}

// holds notes that the agent was told that it holds a claim.
func (a *agent) holds(claims ...api.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range claims {
		if c.State == claim.Held {
			a.told[c.ID] = c
		}
	}
}

// awaits notes that the agent itself ended a claim, and that Notion has yet to be told: the
// agent is to know if that comes to nothing.
func (a *agent) awaits(c api.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[c.ID] = c
}

// done notes that the agent itself ended a claim.
func (a *agent) done(id claim.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.told, id)
}

// news are the claims of whose end the agent has to be told, whatever it asked: each once.
func (a *agent) news() []api.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	news := a.lost
	a.lost = nil
	return news
}

// look looks after the agent's claims: those that nobody keeps alive any more are kept
// alive by this bridge, and those that are over are noted. It returns those that are held,
// and how many were found to be over.
func (b *Bridge) look(ctx context.Context, a *agent) (held []api.Claim, over int, err error) {
	daemon, err := b.options.Daemon()
	if err != nil {
		return nil, 0, err
	}
	if held, err = heldBy(ctx, daemon, a.name); err != nil {
		return nil, 0, err
	}
	for _, c := range held {
		// One whose keeper lives, or that never had one, is left as it is.
		renewal := api.RenewRequest{Agent: a.name, Orphaned: true, Keeper: b.keeper()}
		if b.elsewhere.Load() { // nobody but this bridge can keep it
			renewal.Orphaned = false
			if !a.knows(c.ID) {
				continue
			}
		}
		if _, err := daemon.Renew(ctx, string(c.ID), renewal, ""); b.isElsewhere(err) {
			return b.look(ctx, a)
		} else if err != nil {
			b.options.Log.Debug("a claim could not be taken over", "claim", c.ID, "error", err)
		}
	}
	a.mu.Lock()
	missing := make([]api.Claim, 0, len(a.told))
	for id, c := range a.told {
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
			is.Outcome, is.Detail = claim.EndLost, "the daemon does not know it any more"
		case err != nil:
			return held, over, err
		case is.State == claim.Held: // again: it was on its way somewhere
			continue
		case c.State == claim.Finishing && is.State == claim.Finishing:
			continue
		case c.State == claim.Finishing && is.Outcome == c.Outcome: // as the agent said
			a.done(c.ID)
			continue
		}
		if a.ended(is) {
			over++
		}
	}
	return held, over, nil
}

// heldBy returns what an agent holds.
func heldBy(ctx context.Context, daemon *client.Client, name string) ([]api.Claim, error) {
	list, err := daemon.Claims(ctx, name)
	return slices.DeleteFunc(list.Claims, func(c api.Claim) bool { return c.State != claim.Held }), err
}

// ended notes the end of a claim that the agent did not end itself; false if that is known.
func (a *agent) ended(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.told[c.ID]; !known {
		return false
	}
	delete(a.told, c.ID)
	a.lost = append(a.lost, c)
	return true
}

// knows reports whether the agent was told that it holds a claim.
func (a *agent) knows(id claim.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, told := a.told[id]
	return told
}

// isElsewhere reports whether an error says that the daemon is on another machine, where it
// cannot see this process: what is asked is asked again without it, and claims are renewed
// from here.
func (b *Bridge) isElsewhere(err error) bool {
	p, refused := errors.AsType[*api.Problem](err)
	if !refused || p.Code != api.CodeOtherMachine {
		return false
	}
	b.elsewhere.Store(true)
	return true
}

// process is the number of this process; 0 for a daemon that cannot see it.
func (b *Bridge) process() int {
	if b.elsewhere.Load() {
		return 0
	}
	return b.pid
}

// keeper is this process, as what keeps claims alive.
func (b *Bridge) keeper() api.Keeper {
	if b.elsewhere.Load() {
		return api.Keeper{}
	}
	return api.Keeper{PID: b.pid, GraceSeconds: b.options.Grace.Seconds()}
}

// watch looks after an agent's claims until the bridge ends, and tells the client of those
// that were lost.
func (b *Bridge) watch(a *agent) {
	loop := clock.NewLoop(0, func(ctx context.Context) time.Duration {
		_, over, err := b.look(ctx, a)
		if err != nil && ctx.Err() == nil {
			b.options.Log.Debug("claims could not be looked after", "agent", a.name, "error", err)
		}
		if over > 0 {
			b.push(ctx, a)
		}
		return look
	})
	b.tasks.Go(func() { b.listen(a.name, loop) })
	loop.Run(b.over)
}

// listen wakes a loop when something happened to a claim of the agent's.
func (b *Bridge) listen(name string, loop *clock.Loop) {
	for b.over.Err() == nil {
		var err error
		var daemon *client.Client
		if daemon, err = b.options.Daemon(); err == nil {
			_, err = daemon.Events(b.over, api.EventFilter{After: api.EventsFuture, Agent: name}, true, func(api.Event) error {
				loop.Wake()
				return nil
			})
		}
		if err != nil {
			b.options.Log.Debug("the daemon's events could not be followed", "agent", name, "error", err)
		}
		clock.Pause(b.over, look/3)
	}
}

// errNoName says that no agent can have such a name, or that it may not be used.
func errNoName(name string, err error) error {
	return &usageError{fmt.Sprintf("agent %q: %v", name, err)}
}

// learns reports whether the agent did not know that it holds a claim. Now it does.
func (a *agent) learns(c api.Claim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.told[c.ID]
	a.told[c.ID] = c
	return !known
}
