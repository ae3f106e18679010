package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

// Offers hands tasks over.
type Offers interface {
	// Offer fails as Claim and Finish do.
	Offer(context.Context, broker.Offer) (api.Offered, error)

	// Decline fails as Claim and Finish do.
	Decline(ctx context.Context, agent string, id task.ID, reason string) (api.Offered, error)
}

func (s *Server) offer(ctx context.Context, in *api.TaskInput[api.OfferRequest]) (api.Offered, error) {
	id, err := s.taskFor(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Offered{}, err
	}
	return s.broker.Offer(ctx, broker.Offer{Agent: in.Body.Agent, To: in.Body.To, Task: id, Text: in.Body.Text})
}

func (s *Server) accept(ctx context.Context, in *api.TaskInput[api.AcceptRequest]) (api.Claim, error) {
	id, err := s.taskFor(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Claim{}, err
	}
	return s.broker.Claim(ctx, broker.Request{
		Agent: in.Body.Agent, Task: id, Timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute, Note: in.Body.Note, Keyed: keyedBy(ctx),
	})
}

func (s *Server) decline(ctx context.Context, in *api.TaskInput[api.DeclineRequest]) (api.Offered, error) {
	id, err := s.taskFor(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Offered{}, err
	}
	return s.broker.Decline(ctx, in.Body.Agent, id, in.Body.Reason)
}

// taskFor reads the task of a request, and checks that the caller may act as the agent.
func (s *Server) taskFor(ctx context.Context, id, agent string) (task.ID, error) {
	if err := s.broker.Authorize(agent, asks(ctx)); err != nil {
		return "", err
	}
	return s.named(ctx, "path.id", id)
}
