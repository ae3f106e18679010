package server

import (
	"context"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

// Agents knows the agents and their names.
type Agents interface {
	// Authorize returns a *broker.ForbiddenError or *broker.InvalidError if the caller may not act
	// as agent.
	Authorize(agent string, who broker.Caller) error

	// AuthorizeSigner does so if the caller may not act under a name, an agent's or a person's.
	AuthorizeSigner(name string, who broker.Caller) error

	// Mint returns the name of a user's session, or a new one if it has none or session is empty.
	// It fails with *broker.ForbiddenError.
	Mint(ctx context.Context, who broker.Caller, session string) (api.Minted, error)

	// Identify describes an agent, and says whether the user may use its name. It fails with
	// *broker.InvalidError.
	Identify(ctx context.Context, agent string, who broker.Caller) (api.Agent, error)

	// IdentifySession is Identify for the agent of a session.
	IdentifySession(ctx context.Context, session string, who broker.Caller) (api.Agent, error)

	// Agents returns the agents seen in the last days, the one last seen first.
	Agents(ctx context.Context, days int) (api.Agents, error)
}

// authorizeNamed is Authorize for a request that may name no agent.
func (s *Server) authorizeNamed(ctx context.Context, agent string) error {
	if agent == "" {
		return nil
	}
	return s.broker.Authorize(agent, asks(ctx))
}

func (s *Server) mint(ctx context.Context, in *api.MintInput) (api.Minted, error) {
	return s.broker.Mint(ctx, asks(ctx), orZero(in.Body).Session)
}

func (s *Server) agent(ctx context.Context, in *api.GetAgentInput) (api.Agent, error) {
	if in.Name == task.AutoAgent && in.Session != "" {
		return s.broker.IdentifySession(ctx, in.Session, asks(ctx))
	}
	return s.broker.Identify(ctx, in.Name, asks(ctx))
}
