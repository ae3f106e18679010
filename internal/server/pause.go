package server

import (
	"cmp"
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
)

// Brake stops all grants for a while.
type Brake interface {
	// Pause fails with *broker.InvalidError.
	Pause(context.Context, broker.Pausing) (api.Paused, error)

	Resume(context.Context, broker.Pausing) (api.Paused, error)
}

func (s *Server) pause(ctx context.Context, in *api.KeyedInput[*api.PauseRequest]) (api.Paused, error) {
	body := orZero(in.Body)
	if body.By != "" {
		if err := s.broker.AuthorizeSigner(body.By, asks(ctx)); err != nil {
			return api.Paused{}, err
		}
	}
	user := signature(ctx, "")
	return s.broker.Pause(ctx, broker.Pausing{
		Agent: body.Agent, By: cmp.Or(body.By, user), User: user,
		For: time.Duration(body.ForSeconds * float64(time.Second)), Reason: body.Reason,
	})
}

func (s *Server) endPause(ctx context.Context, in *api.KeyedInput[*api.ResumeRequest]) (api.Paused, error) {
	user := signature(ctx, "")
	return s.broker.Resume(ctx, broker.Pausing{Agent: orZero(in.Body).Agent, By: user, User: user})
}
