package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/alive"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/inbox"
	"dibs/internal/task"
)

func (s *Server) poll(ctx context.Context, in *api.PollInput) (api.Triggers, error) {
	if err := s.broker.Authorize(in.Name, asks(ctx)); err != nil {
		return api.Triggers{}, err
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
			return api.Triggers{}, err
		}
	}
	triggers, err := s.broker.Poll(ctx, p)
	if err != nil {
		return api.Triggers{}, err
	}
	return api.Triggers{Triggers: each(triggers, s.triggerOf)}, nil
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

func (s *Server) ack(ctx context.Context, in *api.AckInput) (api.Acked, error) {
	if err := s.broker.Authorize(in.Name, asks(ctx)); err != nil {
		return api.Acked{}, err
	}
	unknown, err := s.broker.Ack(ctx, in.Name, in.Body.IDs)
	if err != nil {
		return api.Acked{}, err
	}
	return ackedOf(in.Body.IDs, unknown), nil
}

func ackedOf(ids, unknown []string) api.Acked {
	done := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(unknown, id) })
	return api.Acked{Acknowledged: orEmpty(done), Unknown: orEmpty(unknown)}
}

// ackAny acknowledges triggers of whatever agents the caller may act as.
func (s *Server) ackAny(ctx context.Context, in *api.AckAnyInput) (api.Acked, error) {
	agents, err := s.broker.TriggerAgents(ctx, in.Body.IDs)
	if err != nil {
		return api.Acked{}, err
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
			return api.Acked{}, err
		}
	}
	for _, name := range names {
		gone, err := s.broker.Ack(ctx, name, of[name])
		if err != nil {
			return api.Acked{}, err
		}
		unknown = append(unknown, gone...)
	}
	return ackedOf(in.Body.IDs, unknown), nil
}

func (s *Server) message(ctx context.Context, in *api.SendInput) (api.Message, error) {
	if in.Body.From != "" {
		if err := s.broker.Authorize(in.Body.From, asks(ctx)); err != nil {
			return api.Message{}, err
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
		return api.Message{}, err
	}
	return api.Message{
		ID: m.ID, At: s.localTime(m.At), From: cmp.Or(m.From, m.By), To: m.To, Text: m.Text, Agents: orEmpty(m.Agents),
	}, nil
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

func (s *Server) triggerOf(t inbox.Trigger) api.Trigger {
	out := api.Trigger{ID: t.ID, Type: t.Type, Agent: t.Agent, At: s.localTime(t.At), From: t.From, Text: t.Text, Count: t.Count}
	if t.Task.ID != "" {
		out.Task = new(refOf(t.Task))
	}
	return out
}
