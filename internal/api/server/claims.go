package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

type claimInput struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body api.ClaimRequest
}

// changeInput is the input of an operation on one claim.
type changeInput[Body any] struct {
	ID   string `path:"id" doc:"A claim id, a task id, or mine: the only claim that agent holds"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body *Body
}

type claimOutput struct {
	Status int
	Body   api.Claim
}

type claimsOutput struct{ Body api.Claims }

func (s *Server) claimRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "claim", Method: http.MethodPost, Path: "/v1/claims", DefaultStatus: http.StatusCreated,
		Summary: "Claim a task, or the next ready one",
	}, s.claim)
	add(o, huma.Operation{
		OperationID: "list-claims", Method: http.MethodGet, Path: "/v1/claims",
		Summary: "The claims held here",
	}, s.claims)
	add(o, huma.Operation{
		OperationID: "get-claim", Method: http.MethodGet, Path: "/v1/claims/{id}",
		Summary: "A claim, also one that has ended",
	}, s.lookup)

	add(o, changeBy(o, "renew", "Begin the lease anew"), func(ctx context.Context, in *changeInput[api.RenewRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		keeper, err := s.keeperOf(ctx, body.Keeper)
		if err != nil {
			return nil, err
		}
		renew := s.broker.Renew
		switch {
		case body.Orphaned && body.PID == 0:
			return nil, invalid("body.orphaned", errors.New("who is to take the claim over? name a process in pid"))
		case body.Orphaned:
			renew = func(ctx context.Context, r broker.Ref) (claim.Claim, error) { return s.broker.Adopt(ctx, r, keeper) }
		case body.PID != 0:
			renew = func(ctx context.Context, r broker.Ref) (claim.Claim, error) { return s.broker.Keep(ctx, r, keeper) }
		}
		return s.change(ctx, in.ID, body.Agent, renew)
	})
	add(o, changeBy(o, "complete", "The work is done"), func(ctx context.Context, in *changeInput[api.CompleteRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndCompleted, Summary: body.Summary})
	})
	add(o, changeBy(o, "review", "The work is done, and a person is to decide"), func(ctx context.Context, in *changeInput[api.ReviewRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndReview, Summary: body.Note, Mention: body.Mention})
	})
	add(o, changeBy(o, "release", "Give the task back"), func(ctx context.Context, in *changeInput[api.StopRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndReleased, Summary: body.Reason})
	})
	add(o, changeBy(o, "block", "The work cannot go on"), func(ctx context.Context, in *changeInput[api.BlockRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndBlocked, Summary: body.Reason, Mention: body.Mention})
	})
	add(o, changeBy(o, "fail", "The work was tried and failed"), func(ctx context.Context, in *changeInput[api.FailRequest]) (*claimOutput, error) {
		body := orZero(in.Body)
		return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndFailed, Summary: body.Reason, Reopen: body.Reopen, Mention: body.Mention})
	})
}

// changeBy describes an operation on one claim.
func changeBy(o operations, verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb, Method: http.MethodPost, Path: "/v1/claims/{id}/" + verb, Summary: summary,
		Responses: map[string]*huma.Response{"202": {
			Description: "Accepted, and owed to Notion",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: o.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Claim](), true, "Claim")},
			},
		}},
	}
}

func (s *Server) claim(ctx context.Context, in *claimInput) (*claimOutput, error) {
	if err := s.broker.Authorize(in.Body.Agent, asks(ctx)); err != nil {
		return nil, err
	}
	request := broker.Request{
		Agent:   in.Body.Agent,
		Timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute,
		Wait:    time.Duration(in.Body.WaitSeconds * float64(time.Second)),
		Key:     in.Key,
		Filter:  in.Body.Filter,
	}
	if !in.Body.Filter.Empty() && in.Body.Task != "" {
		return nil, invalid("body.task", errors.New("a filter (priority, where, text) goes with the next ready task, not with one that is named"))
	}
	if len(in.Body.Except) > 0 && in.Body.Task != "" {
		return nil, invalid("body.except", errors.New("it goes with the next ready task, not with one that is named"))
	}
	for i, s := range in.Body.Except {
		id, err := task.ParseID(s)
		if err != nil {
			return nil, invalid(fmt.Sprintf("body.except[%d]", i), err)
		}
		request.Except = append(request.Except, id)
	}
	var err error
	if request.Keeper, err = s.keeperOf(ctx, in.Body.Keeper); err != nil {
		return nil, err
	}
	if in.Key != "" {
		request.UID = caller(ctx)
	}
	if in.Body.Task != "" {
		if request.Task, err = s.named(ctx, "body.task", in.Body.Task); err != nil {
			return nil, err
		}
	}
	c, err := s.broker.Claim(ctx, request)
	if err != nil {
		return nil, err
	}
	return &claimOutput{http.StatusCreated, s.claimOf(c)}, nil
}

func (s *Server) claims(ctx context.Context, in *struct {
	Agent string `query:"agent" doc:"Only this agent's"`
}) (*claimsOutput, error) {
	held, err := s.broker.Claims(ctx, in.Agent)
	if err != nil {
		return nil, err
	}
	return &claimsOutput{api.Claims{Claims: each(held, s.claimOf)}}, nil
}

func (s *Server) lookup(ctx context.Context, in *struct {
	ID    string `path:"id" doc:"A claim id, a task id, or mine: the only claim that agent holds"`
	Agent string `query:"agent" doc:"Whose claim it must be"`
	Wait  string `query:"wait" doc:"How long to wait, such as 60s, for the claim to end or for an event about it"`
	After int64  `query:"after" default:"-1" minimum:"-1" doc:"Only events after the one with this id; -1: only new ones"`
}) (*claimOutput, error) {
	ref, err := s.refTo(ctx, in.ID, in.Agent)
	if err != nil {
		return nil, err
	}
	if in.Wait != "" {
		return s.watch(ctx, ref, in.After, in.Wait)
	}
	c, err := s.broker.Lookup(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &claimOutput{http.StatusOK, s.claimOf(c)}, nil
}

// finish does what the agent says when it is done with a task.
func (s *Server) finish(ctx context.Context, id, agent string, f claim.Finish) (*claimOutput, error) {
	return s.change(ctx, id, agent, func(ctx context.Context, ref broker.Ref) (claim.Claim, error) {
		return s.broker.Finish(ctx, ref, f)
	})
}

// change does something with a claim that the caller may act on. The claim is
// found once, and what is done names its id, so that it is done to the very
// claim that was authorized.
func (s *Server) change(ctx context.Context, id, agent string, do func(context.Context, broker.Ref) (claim.Claim, error)) (*claimOutput, error) {
	ref, err := s.refTo(ctx, id, agent)
	if err != nil {
		return nil, err
	}
	if agent != "" {
		if err := s.broker.Authorize(agent, asks(ctx)); err != nil {
			return nil, err
		}
	}
	found, err := s.broker.Lookup(ctx, ref)
	if err != nil {
		return nil, err
	}
	if found.Agent != agent {
		if err := s.broker.Authorize(found.Agent, asks(ctx)); err != nil {
			return nil, err
		}
	}
	ref.Claim = string(found.ID)
	c, err := do(ctx, ref)
	if lost, ok := errors.AsType[*claim.Lost](err); ok && id == api.OnlyClaim {
		return nil, s.notMeant(ctx, agent, lost)
	}
	if owed, ok := errors.AsType[*broker.OwedError](err); ok {
		out := s.claimOf(owed.Claim)
		out.Detail, out.Owed = saying(owed), s.owed(owed.Claim)
		return &claimOutput{http.StatusAccepted, out}, nil
	}
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if c.State == claim.Finishing {
		status = http.StatusAccepted
	}
	return &claimOutput{status, s.claimOf(c)}, nil
}

// notMeant is the refusal of a request that named no claim, because one was lost. It says
// what the agent holds beside, none of which was touched.
func (s *Server) notMeant(ctx context.Context, agent string, lost *claim.Lost) error {
	held, err := s.broker.Claims(ctx, agent)
	if err != nil {
		return err
	}
	p := s.lost(lost)
	p.Claims = each(held, s.claimOf)
	switch len(held) {
	case 0:
	case 1:
		p.Detail += fmt.Sprintf("; nothing was done to %s, which %s holds too: name it if you mean it", nameOf(held[0].Task), agent)
	default:
		p.Detail += fmt.Sprintf("; nothing was done to the %d tasks that %s holds too: name the one you mean", len(held), agent)
	}
	return p
}

// refTo reads which claim an address names.
func (s *Server) refTo(ctx context.Context, id, agent string) (broker.Ref, error) {
	if id == api.OnlyClaim {
		if agent == "" {
			return broker.Ref{}, invalid("agent", fmt.Errorf("which agent's only claim? name the agent, or the claim by its id"))
		}
		return broker.Ref{Agent: agent}, nil
	}
	if claimID, ok := claim.ParseID(id); ok {
		return broker.Ref{Claim: string(claimID), Agent: agent}, nil
	}
	taskID, err := s.named(ctx, "path.id", id)
	if _, bad := errors.AsType[*api.Problem](err); bad {
		return broker.Ref{}, invalid("path.id", fmt.Errorf("%q is neither the id of a claim nor of a task", id))
	}
	if err != nil {
		return broker.Ref{}, err
	}
	return broker.Ref{Claim: string(taskID), Agent: agent}, nil
}

// invalid is the problem of a part of a request that cannot be used.
func invalid(location string, err error) *api.Problem {
	p := api.NewProblem(api.CodeInvalidRequest, location+": "+err.Error())
	p.Errors = []api.Fault{{Location: location, Message: err.Error()}}
	return p
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
