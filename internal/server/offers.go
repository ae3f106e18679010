package server

import (
	"context"
	"errors"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Offers is how tasks are handed over.
type Offers interface {
	// Offer fails as Claim and Finish do. A claim returned in state Finishing was
	// accepted and is owed to Notion.
	Offer(context.Context, broker.Offer) (c claim.Claim, until time.Time, err error)

	// Decline fails as Claim and Finish do.
	Decline(ctx context.Context, agent string, id task.ID, reason string) (claim.Claim, error)
}

func (s *Server) offer(ctx context.Context, in *api.TaskInput[api.OfferRequest]) (api.Offered, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Offered{}, err
	}
	c, until, err := s.broker.Offer(ctx, broker.Offer{Agent: in.Body.Agent, To: in.Body.To, Task: id, Text: in.Body.Text})
	if err != nil {
		return api.Offered{}, err
	}
	out := s.handedOver(c)
	out.Offer = &api.Offer{State: api.Reviewing, From: in.Body.Agent, To: in.Body.To, ExpiresAt: s.localTime(until)}
	return out, nil
}

func (s *Server) accept(ctx context.Context, in *api.TaskInput[api.AcceptRequest]) (api.Claim, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Claim{}, err
	}
	r := broker.Request{Agent: in.Body.Agent, Task: id, Timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute, Key: in.Key, Note: in.Body.Note}
	if in.Key != "" {
		r.UID = caller(ctx)
	}
	c, err := s.broker.Claim(ctx, r)
	if err != nil {
		return api.Claim{}, err
	}
	return s.claimOf(c), nil
}

func (s *Server) decline(ctx context.Context, in *api.TaskInput[api.DeclineRequest]) (api.Offered, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return api.Offered{}, err
	}
	c, err := s.broker.Decline(ctx, in.Body.Agent, id, in.Body.Reason)
	if err != nil {
		return api.Offered{}, err
	}
	return s.handedOver(c), nil
}

// handed reads which task is meant, and checks that the caller may act as the agent.
func (s *Server) handed(ctx context.Context, id, agent string) (task.ID, error) {
	if err := s.broker.Authorize(agent, asks(ctx)); err != nil {
		return "", err
	}
	return s.named(ctx, "path.id", id)
}

// handedOver answers with the task of a claim that was given up for somebody else.
func (s *Server) handedOver(c claim.Claim) api.Offered {
	out := api.Offered{Task: refOf(c.Task)}
	if c.State == claim.Finishing {
		out.Detail, out.Owed = saying(errors.New(c.Detail)), s.owed(c)
	}
	return out
}
