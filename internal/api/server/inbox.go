package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

type (
	triggersOutput struct{ Body api.Triggers }
	ackedOutput    struct{ Body api.Acked }
	messageOutput  struct {
		Status int
		Body   api.Message
	}
	offeredOutput struct {
		Status int
		Body   api.Offered
	}
)

// agentInput is the input of an operation on an agent's inbox.
type agentInput[Body any] struct {
	Name string `path:"name" doc:"The agent"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body Body
}

// handInput is the input of an operation on a task that is handed over.
type handInput[Body any] struct {
	ID   string `path:"id" doc:"The task's id, URL or key, such as T-3"`
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body Body
}

func (s *Server) inboxRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "poll", Method: http.MethodPost, Path: "/v1/agents/{name}/poll",
		Summary: "Take an agent's triggers: each is handed out once, and comes back if it is not acknowledged",
	}, s.poll)
	add(o, huma.Operation{
		OperationID: "ack", Method: http.MethodPost, Path: "/v1/agents/{name}/ack",
		Summary: "Say that an agent is done with triggers",
	}, func(ctx context.Context, in *agentInput[api.AckRequest]) (*ackedOutput, error) {
		return s.ack(ctx, in.Name, in.Body.IDs)
	})
	add(o, huma.Operation{
		OperationID: "ack-any", Method: http.MethodPost, Path: "/v1/ack",
		Summary: "Say that the agents whose they are are done with triggers",
	}, s.ackAny)
	add(o, huma.Operation{
		OperationID: "send", Method: http.MethodPost, Path: "/v1/messages", DefaultStatus: http.StatusCreated,
		Summary: "Say something to an agent, or to all",
	}, s.message)
	add(o, handBy(o, "offer", "Hand a task that is held or open to another agent"), s.offer)
	add(o, huma.Operation{
		OperationID: "accept", Method: http.MethodPost, Path: "/v1/tasks/{id}/accept", DefaultStatus: http.StatusCreated,
		Summary: "Claim a task that is offered to the agent",
	}, s.accept)
	add(o, handBy(o, "decline", "Give back a task that is offered to the agent"), s.decline)
}

func handBy(o operations, verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb, Method: http.MethodPost, Path: "/v1/tasks/{id}/" + verb, Summary: summary,
		Responses: map[string]*huma.Response{"202": {
			Description: "Accepted, and owed to Notion",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: o.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Offered](), true, "Offered")},
			},
		}},
	}
}

func (s *Server) poll(ctx context.Context, in *struct {
	Name string `path:"name" doc:"The agent"`
	Key  string `header:"Idempotency-Key" doc:"A repeated poll with the same key gets what it took, but what was acknowledged or taken by another one since"`
	Body *api.PollRequest
}) (*triggersOutput, error) {
	if err := s.broker.Authorize(in.Name, asks(ctx)); err != nil {
		return nil, err
	}
	body := orZero(in.Body)
	p := broker.Poll{
		Agent: in.Name, Wait: time.Duration(body.WaitSeconds * float64(time.Second)), Limit: body.Limit, Finished: body.Finished, Key: in.Key,
		New: func() error { return s.owe(ctx) },
	}
	if p.Limit == 0 {
		p.Limit = api.MaxTriggers
	}
	if in.Key != "" {
		p.UID = caller(ctx)
	}
	if body.PID != 0 {
		var err error
		if p.Process, err = s.ownProcess(ctx, body.PID); err != nil {
			return nil, err
		}
	}
	triggers, err := s.broker.Poll(ctx, p)
	if err != nil {
		return nil, err
	}
	return &triggersOutput{api.Triggers{Triggers: each(triggers, s.triggerOf)}}, nil
}

// ownProcess is a process of the machine at which the caller came in, which has to be one of
// the caller's.
func (s *Server) ownProcess(ctx context.Context, pid int) (alive.Process, error) {
	if !sameMachine(ctx) {
		return alive.Process{}, api.NewProblem(api.CodeOtherMachine,
			fmt.Sprintf("process %d is on another machine than the daemon, or in another container, where it cannot be watched: leave --pid out, and renew, or use dibs run", pid))
	}
	p, err := s.machines.Find(ctx, guest(ctx).Member, pid)
	if unheard, ok := errors.AsType[*UnheardError](err); ok {
		return p, unheard.problem()
	}
	if err != nil {
		return p, invalid("body.pid", fmt.Errorf("a process of this machine is wanted: %w", err))
	}
	if uid := caller(ctx); uid > 0 && p.UID != uid {
		return p, invalid("body.pid", fmt.Errorf("process %d is another user's", pid))
	}
	return p, nil
}

func (s *Server) ack(ctx context.Context, name string, ids []string) (*ackedOutput, error) {
	if err := s.broker.Authorize(name, asks(ctx)); err != nil {
		return nil, err
	}
	unknown, err := s.broker.Ack(ctx, name, ids)
	if err != nil {
		return nil, err
	}
	return ackedOf(ids, unknown), nil
}

func ackedOf(ids, unknown []string) *ackedOutput {
	done := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(unknown, id) })
	return &ackedOutput{api.Acked{Acknowledged: orEmpty(done), Unknown: orEmpty(unknown)}}
}

// ackAny acknowledges triggers of whatever agents the caller may act as.
func (s *Server) ackAny(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body api.AckRequest
}) (*ackedOutput, error) {
	agents, err := s.broker.TriggerAgents(ctx, in.Body.IDs)
	if err != nil {
		return nil, err
	}
	of := make(map[string][]string)
	var names, unknown []string
	for _, id := range in.Body.IDs {
		name, known := agents[id]
		if !known {
			unknown = append(unknown, id)
			continue
		}
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], id)
	}
	for _, name := range names {
		if err := s.broker.Authorize(name, asks(ctx)); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		gone, err := s.broker.Ack(ctx, name, of[name])
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, gone...)
	}
	return ackedOf(in.Body.IDs, unknown), nil
}

func (s *Server) message(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key gets the same answer"`
	Body api.MessageRequest
}) (*messageOutput, error) {
	if in.Body.From != "" {
		if err := s.broker.Authorize(in.Body.From, asks(ctx)); err != nil {
			return nil, err
		}
	}
	said := broker.Message{
		From: in.Body.From, By: signature(ctx, in.Body.From), To: in.Body.To, Text: in.Body.Text, Key: in.Key,
		Tell: func(agents int) error { return s.oweCopies(ctx, agents, in.Body.Text) },
	}
	if in.Key != "" {
		said.UID = caller(ctx)
	}
	m, err := s.broker.Send(ctx, said)
	if err != nil {
		return nil, err
	}
	return &messageOutput{http.StatusCreated, api.Message{
		ID: m.ID, At: s.localTime(m.At), From: cmp.Or(m.From, m.By), To: m.To, Text: m.Text, Agents: orEmpty(m.Agents),
	}}, nil
}

func (s *Server) offer(ctx context.Context, in *handInput[api.OfferRequest]) (*offeredOutput, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	c, until, err := s.broker.Offer(ctx, broker.Offer{Agent: in.Body.Agent, To: in.Body.To, Task: id, Text: in.Body.Text})
	if err != nil {
		return nil, err
	}
	out := s.handedOver(c)
	out.Body.Offer = &api.Offer{State: api.Reviewing, From: in.Body.Agent, To: in.Body.To, ExpiresAt: s.localTime(until)}
	return out, nil
}

func (s *Server) accept(ctx context.Context, in *handInput[api.AcceptRequest]) (*claimOutput, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	r := broker.Request{Agent: in.Body.Agent, Task: id, Timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute, Key: in.Key, Note: in.Body.Note}
	if in.Key != "" {
		r.UID = caller(ctx)
	}
	c, err := s.broker.Claim(ctx, r)
	if err != nil {
		return nil, err
	}
	return &claimOutput{http.StatusCreated, s.claimOf(c)}, nil
}

func (s *Server) decline(ctx context.Context, in *handInput[api.DeclineRequest]) (*offeredOutput, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	c, err := s.broker.Decline(ctx, in.Body.Agent, id, in.Body.Reason)
	if err != nil {
		return nil, err
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
func (s *Server) handedOver(c claim.Claim) *offeredOutput {
	out := &offeredOutput{http.StatusOK, api.Offered{Task: refOf(c.Task)}}
	if c.State == claim.Finishing {
		out.Status, out.Body.Detail, out.Body.Owed = http.StatusAccepted, saying(errors.New(c.Detail)), s.owed(c)
	}
	return out
}

func (s *Server) triggerOf(t inbox.Trigger) api.Trigger {
	out := api.Trigger{ID: t.ID, Type: t.Type, Agent: t.Agent, At: s.localTime(t.At), From: t.From, Text: t.Text, Count: t.Count}
	if t.Task.ID != "" {
		out.Task = new(refOf(t.Task))
	}
	return out
}
