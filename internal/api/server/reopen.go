package server

import (
	"context"
	"net/http"

	"dibs/internal/api"
	"dibs/internal/broker"

	"github.com/danielgtaylor/huma/v2"
)

type reopenedOutput struct{ Body api.Reopened }

type reopenInput struct {
	ID   string `path:"id" doc:"A task, by its id or key"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *api.ReopenRequest
}

func (s *Server) reopenRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "reopen", Method: http.MethodPost, Path: "/v1/tasks/{id}/reopen",
		Summary: "Put a task back to OPEN that is blocked, failed or in review, or in the status that was seen",
	}, s.reopen)
}

func (s *Server) reopen(ctx context.Context, in *reopenInput) (*reopenedOutput, error) {
	body := orZero(in.Body)
	if body.Agent != "" {
		if err := s.broker.Authorize(body.Agent, asks(ctx)); err != nil {
			return nil, err
		}
	}
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return nil, err
	}
	done, err := s.broker.Reopen(ctx, broker.Reopening{Task: id, Agent: body.Agent, By: signature(ctx, body.Agent), Note: body.Note, Was: body.Was})
	if err != nil {
		return nil, err
	}
	return &reopenedOutput{api.Reopened{Task: refOf(done.Task), Was: done.Was}}, nil
}
