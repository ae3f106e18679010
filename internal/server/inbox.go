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
	"dibs/internal/inbox"
)

// Inbox is what agents are told by.
type Inbox interface {
	// Poll takes the triggers of an agent, after waiting for one if there are none. It
	// fails with broker.ErrStopping.
	Poll(context.Context, broker.Poll) ([]inbox.Trigger, error)

	// TriggerAgents returns whose triggers these are; unknown ids are left out.
	TriggerAgents(ctx context.Context, ids []string) (map[string]string, error)

	// Ack acknowledges triggers of an agent, and returns those that it has none of.
	Ack(ctx context.Context, agent string, ids []string) (unknown []string, err error)

	// Send fails with *broker.InvalidError.
	Send(context.Context, broker.Message) (broker.Message, error)
}

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
func (s *Server) ackAny(ctx context.Context, in *api.KeyedInput[api.AckRequest]) (api.Acked, error) {
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

func (s *Server) message(ctx context.Context, in *api.KeyedInput[api.MessageRequest]) (api.Message, error) {
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

func (s *Server) triggerOf(t inbox.Trigger) api.Trigger {
	out := api.Trigger{ID: t.ID, Type: t.Type, Agent: t.Agent, At: s.localTime(t.At), From: t.From, Text: t.Text, Count: t.Count}
	if t.Task.ID != "" {
		out.Task = new(refOf(t.Task))
	}
	return out
}
