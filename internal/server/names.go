package server

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

// Agents is what agents are known by.
type Agents interface {
	// Authorize reports, as *broker.ForbiddenError or *broker.InvalidError, that
	// the caller may not act as agent.
	Authorize(agent string, who broker.Caller) error

	// Mint returns the name of a user's session, a new one if it has none or session is
	// empty. It fails with *broker.ForbiddenError.
	Mint(ctx context.Context, who broker.Caller, session string) (name string, minted bool, err error)

	// Identify says how an agent stands, and whether the user may go by its name. It
	// fails with *broker.InvalidError.
	Identify(ctx context.Context, agent string, who broker.Caller) (broker.Identity, error)

	// IdentifySession says so of the agent whose name a session has.
	IdentifySession(ctx context.Context, session string, who broker.Caller) (broker.Identity, error)

	// Agents returns the agents seen in the last days, the one last seen first.
	Agents(ctx context.Context, days int) ([]broker.Doing, error)
}

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
