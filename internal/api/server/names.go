package server

import (
	"context"
	"net/http"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

type (
	mintedOutput struct {
		Status int
		Body   api.Minted
	}
	agentOutput struct{ Body api.Agent }
)

func (s *Server) nameRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "mint", Method: http.MethodPost, Path: "/v1/agents", DefaultStatus: http.StatusCreated,
		Summary: "A name for an agent that has none: always the same for one session",
	}, s.mint)
	add(o, huma.Operation{
		OperationID: "get-agent", Method: http.MethodGet, Path: "/v1/agents/{name}",
		Summary: "How an agent stands, and whether the caller may go by its name; nothing is taken from its inbox",
	}, s.agent)
}

func (s *Server) mint(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same name"`
	Body *api.MintRequest
}) (*mintedOutput, error) {
	name, minted, err := s.broker.Mint(ctx, asks(ctx), orZero(in.Body).Session)
	if err != nil {
		return nil, err
	}
	out := &mintedOutput{http.StatusOK, api.Minted{Agent: name, Minted: minted}}
	if minted {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (s *Server) agent(ctx context.Context, in *struct {
	Name    string `path:"name" doc:"The agent; auto for the one whose name the session has"`
	Session string `query:"session" maxLength:"200" doc:"With auto: what the session was given its name for"`
}) (*agentOutput, error) {
	identify := s.broker.Identify
	of := in.Name
	if in.Name == task.AutoAgent && in.Session != "" {
		identify, of = s.broker.IdentifySession, in.Session
	}
	id, err := identify(ctx, of, asks(ctx))
	if err != nil {
		return nil, err
	}
	out := &agentOutput{api.Agent{
		Agent: id.Agent, Allowed: id.Forbidden == nil,
		Claims: each(id.Claims, s.claimOf), Lost: each(id.Lost, s.claimOf), MaxPerAgent: id.Limit, Inbox: id.Waiting,
	}}
	if id.UID >= 0 {
		out.Body.UID = &id.UID
	}
	if id.Forbidden != nil {
		out.Body.Reason = saying(id.Forbidden)
	}
	return out, nil
}
