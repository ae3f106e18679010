package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
)

// Brake stops all grants for a while.
type Brake interface {
	// Pause fails with *broker.InvalidError, *broker.ForbiddenError or *claim.Denied.
	Pause(context.Context, broker.Pausing) (api.Paused, error)

	// Resume fails with *broker.ForbiddenError.
	Resume(context.Context, broker.Pausing) (api.Paused, error)
}

func (s *Server) pause(ctx context.Context, in *api.KeyedInput[*api.PauseRequest]) (api.Paused, error) {
	body := orZero(in.Body)
	p, err := s.pausing(ctx, body.Agent, body.By)
	if err != nil {
		return api.Paused{}, err
	}
	p.For, p.Reason = time.Duration(body.ForSeconds*float64(time.Second)), body.Reason
	return s.broker.Pause(ctx, p)
}

func (s *Server) endPause(ctx context.Context, in *api.KeyedInput[*api.ResumeRequest]) (api.Paused, error) {
	body := orZero(in.Body)
	p, err := s.pausing(ctx, body.Agent, body.By)
	if err != nil {
		return api.Paused{}, err
	}
	return s.broker.Resume(ctx, p)
}

// pausing says who pauses or resumes. Only the daemon's user and root may name somebody else in by:
// a pause stops everybody, so the name under it has to be true.
func (s *Server) pausing(ctx context.Context, agent, by string) (broker.Pausing, error) {
	user := signature(ctx, "")
	p := broker.Pausing{Agent: agent, By: user, User: user, Own: guest(ctx).Own}
	if by == "" || !p.Own {
		return p, nil
	}
	p.By = by
	return p, s.broker.AuthorizeSigner(by, asks(ctx))
}
