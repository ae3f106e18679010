package server

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/task"
)

func (s *Server) mint(ctx context.Context, in *api.MintInput) (api.Minted, error) {
	name, minted, err := s.broker.Mint(ctx, asks(ctx), orZero(in.Body).Session)
	if err != nil {
		return api.Minted{}, err
	}
	return api.Minted{Agent: name, Minted: minted}, nil
}

func (s *Server) agent(ctx context.Context, in *api.GetAgentInput) (api.Agent, error) {
	identify := s.broker.Identify
	of := in.Name
	if in.Name == task.AutoAgent && in.Session != "" {
		identify, of = s.broker.IdentifySession, in.Session
	}
	id, err := identify(ctx, of, asks(ctx))
	if err != nil {
		return api.Agent{}, err
	}
	out := api.Agent{
		Agent: id.Agent, Allowed: id.Forbidden == nil,
		Claims: each(id.Claims, s.claimOf), Lost: each(id.Lost, s.claimOf), MaxPerAgent: id.Limit, Inbox: id.Waiting,
	}
	if id.UID >= 0 {
		out.UID = &id.UID
	}
	if id.Forbidden != nil {
		out.Reason = saying(id.Forbidden)
	}
	return out, nil
}
