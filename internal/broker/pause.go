package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/task"
)

// Pausing asks to pause an agent, all that a pattern covers, or everybody; or to resume them.
type Pausing struct {
	Agent string // empty for everybody
	By    string // who asks
	User  string // as in a Finish
	// Own is set if the daemon's user asks, or root: nobody else ends or replaces their pause.
	Own    bool
	For    time.Duration
	Reason string
}

// Pause has nothing granted for a while; what is held goes on. It costs no request to Notion. The
// error is an *InvalidError for a name that no agent here can have, a *ForbiddenError if the pause
// is another's, and a *claim.Denied if there are brake.MostPauses.
func (b *Broker) Pause(ctx context.Context, p Pausing) (api.Paused, error) {
	if task.IsAgentPattern(p.Agent) {
		if err := task.ValidateAgent(p.Agent); err != nil {
			return api.Paused{}, &InvalidError{Detail: err.Error()}
		}
	} else if p.Agent != "" {
		if err := b.checkName(p.Agent); err != nil {
			return api.Paused{}, err
		}
	}
	now := b.now()
	pause := brake.Pause{By: p.By, Reason: task.OneLine(p.Reason, -1), At: now, Own: p.Own}
	if p.For > 0 {
		pause.Until = now.Add(p.For)
	}
	out, err := b.change(ctx, p, func(s *brake.State) (claim.Fact, bool) { return s.Pause(p.Agent, pause, p.User) })
	if err == nil && !out.Changed {
		err = &claim.Denied{Code: claim.CodeLimitReached, Reach: claim.ReachLocal, Detail: fmt.Sprintf("nothing was paused: %d agents and patterns are, which is the most; end one of these pauses first, or pause everybody", brake.MostPauses)}
	}
	return out, err
}

// Resume ends a pause; that of everybody with the breaker's. The error is a *ForbiddenError if the
// pause is another's.
func (b *Broker) Resume(ctx context.Context, p Pausing) (api.Paused, error) {
	return b.change(ctx, p, func(s *brake.State) (claim.Fact, bool) {
		return s.Resume(p.Agent, p.By, p.User, b.now())
	})
}

// change changes the brake, unless p is about a pause of the daemon's user and somebody else asks.
func (b *Broker) change(ctx context.Context, p Pausing, change func(*brake.State) (claim.Fact, bool)) (api.Paused, error) {
	var forbidden error
	state, changed, err := b.journal.ChangeBrake(ctx, func(s *brake.State) (claim.Fact, bool) {
		forbidden = nil
		if of, owned := s.Owned(p.Agent, b.now()); owned && !p.Own {
			forbidden = &ForbiddenError{Detail: fmt.Sprintf("%s paused %s for the daemon's user: only that user, and root, may end or replace this pause", of.By, of.Whom())}
			return claim.Fact{}, false
		}
		return change(s)
	})
	if err = cmp.Or(err, forbidden); err != nil {
		return api.Paused{}, err
	}
	b.eased.fire()
	return api.Paused{Changed: changed, Pauses: orEmpty(b.pauses(state))}, nil
}

// pauses returns what is paused.
func (b *Broker) pauses(s brake.State) []api.Pause { return each(s.InForce(b.now()), b.pause) }

func (b *Broker) pause(p brake.PauseFor) api.Pause {
	return api.Pause{Agent: p.Agent, By: p.By, Reason: p.Reason, At: b.time(p.At), ExpiresAt: b.time(p.Until)}
}

// paused returns what pauses the agent; nil if nothing does.
func (b *Broker) paused(ctx context.Context, agent string) (*claim.Barred, error) {
	s, err := b.journal.Brake(ctx)
	return s.Bars(agent, b.now()), err
}

// until returns the time until the end of a pause, but most at the most; an end of zero is none.
func (b *Broker) until(end time.Time, most time.Duration) time.Duration {
	if end.IsZero() {
		return most
	}
	return max(0, min(most, end.Sub(b.now())))
}

// tryUnpaused is try, but of a pause it tries nothing, so that waiting through one costs nothing
// and leaves no trace. waited says that the pause was met before.
func (b *Broker) tryUnpaused(ctx context.Context, r Request, f task.Filter, first, waited bool) (claim.Hold, error) {
	if waited {
		if barred, err := b.paused(ctx, r.Agent); barred != nil && err == nil {
			return claim.Hold{}, barred.Denied()
		}
	}
	cl, err := b.try(ctx, r, f, first)
	if denied, ok := errors.AsType[*claim.Denied](err); ok && denied.Code == claim.CodeNothingReady {
		if barred, err := b.paused(ctx, r.Agent); barred != nil && err == nil {
			return claim.Hold{}, barred.Denied()
		}
	}
	return cl, err
}
