package broker

import (
	"cmp"
	"context"
	"fmt"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/brake"
	"dibs/internal/task"
)

// Pause has nothing granted for a while; what is held goes on. It costs no request to Notion. The
// error is an *InvalidError for a name that no agent here can have, a *ForbiddenError if the pause
// is another's, and a *claim.Denied if there are brake.MostPauses.
func (b *Broker) Pause(ctx context.Context, who Caller, in *api.KeyedInput[*api.PauseRequest]) (api.Paused, error) {
	body := orZero(in.Body)
	by, err := b.pauser(who, body.By)
	if err != nil {
		return api.Paused{}, err
	}
	if task.IsAgentPattern(body.Agent) {
		if err := task.ValidateAgent(body.Agent); err != nil {
			return api.Paused{}, &InvalidError{Detail: err.Error()}
		}
	} else if body.Agent != "" {
		if err := b.checkName(body.Agent); err != nil {
			return api.Paused{}, err
		}
	}
	now := b.now()
	pause := brake.Pause{By: by, Reason: task.OneLine(body.Reason, -1), At: now, Own: who.Own}
	if body.ForSeconds > 0 {
		pause.Until = now.Add(seconds(body.ForSeconds))
	}
	out, err := b.change(ctx, who, body.Agent, func(s *brake.State) (claim.Fact, bool) { return s.Pause(body.Agent, pause, who.User) })
	if err == nil && !out.Changed {
		err = &claim.Denied{Code: claim.CodeLimitReached, Reach: claim.ReachLocal, Detail: fmt.Sprintf("nothing was paused: %d agents and patterns are, which is the most; end one of these pauses first, or pause everybody", brake.MostPauses)}
	}
	return out, err
}

// Resume ends a pause; that of everybody with the breaker's. The error is a *ForbiddenError if the
// pause is another's.
func (b *Broker) Resume(ctx context.Context, who Caller, in *api.KeyedInput[*api.ResumeRequest]) (api.Paused, error) {
	body := orZero(in.Body)
	by, err := b.pauser(who, body.By)
	if err != nil {
		return api.Paused{}, err
	}
	return b.change(ctx, who, body.Agent, func(s *brake.State) (claim.Fact, bool) {
		return s.Resume(body.Agent, by, who.User, b.now())
	})
}

// pauser returns who pauses or resumes. Only the daemon's user and root may name somebody else in by:
// a pause stops everybody, so the name under it has to be true.
func (b *Broker) pauser(who Caller, by string) (string, error) {
	if by == "" || !who.Own {
		return who.User, nil
	}
	return by, b.AuthorizeSigner(by, who)
}

// change changes the brake, unless it is about a pause of the daemon's user and somebody else asks.
func (b *Broker) change(ctx context.Context, who Caller, agent string, change func(*brake.State) (claim.Fact, bool)) (api.Paused, error) {
	var forbidden error
	state, changed, err := b.journal.ChangeBrake(ctx, func(s *brake.State) (claim.Fact, bool) {
		forbidden = nil
		if of, owned := s.Owned(agent, b.now()); owned && !who.Own {
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
