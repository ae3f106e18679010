package server

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/broker"
)

func (s *Server) reopen(ctx context.Context, in *api.ReopenInput) (api.Reopened, error) {
	body := orZero(in.Body)
	if err := s.authorizeNamed(ctx, body.Agent); err != nil {
		return api.Reopened{}, err
	}
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return api.Reopened{}, err
	}
	return s.broker.Reopen(ctx, broker.Reopening{Task: id, Agent: body.Agent, By: signature(ctx, body.Agent), Note: body.Note, Was: body.Was, Holder: body.Holder, Status: body.Status})
}

func (s *Server) reopenFailed(ctx context.Context, in *api.KeyedInput[api.ReopenFailedRequest]) (api.ReopenedTasks, error) {
	body := in.Body
	if err := s.authorizeNamed(ctx, body.Agent); err != nil {
		return api.ReopenedTasks{}, err
	}
	return s.broker.ReopenFailed(ctx, broker.ReopeningFailed{
		FailedBy: body.FailedBy, Since: body.Since.Time, DryRun: body.DryRun, Agent: body.Agent, By: signature(ctx, body.Agent), Note: body.Note,
	})
}
