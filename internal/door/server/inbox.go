package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim/keepers"
)

// Inbox delivers triggers and messages to agents.
type Inbox interface {
	// Poll takes an agent's triggers, and waits for one if there are none. It fails with
	// broker.ErrStopping.
	Poll(context.Context, broker.Poll) (api.Triggers, error)

	// Ack acknowledges triggers of an agent.
	Ack(ctx context.Context, agent string, ids []string) (api.Acked, error)

	// AckAny is Ack for triggers of any agents that the caller may act as. It fails as Authorize
	// does.
	AckAny(ctx context.Context, ids []string, who broker.Caller) (api.Acked, error)

	// Send fails with *broker.InvalidError.
	Send(context.Context, broker.Message) (api.Message, error)
}

func (s *Server) poll(ctx context.Context, in *api.PollInput) (api.Triggers, error) {
	if err := s.broker.Authorize(in.Name, asks(ctx)); err != nil {
		return api.Triggers{}, err
	}
	body := orZero(in.Body)
	p := broker.Poll{
		Agent: in.Name, Wait: time.Duration(body.WaitSeconds * float64(time.Second)), Limit: body.Limit, Finished: body.Finished, Keyed: keyedBy(ctx),
		New: func() error { return s.charge(ctx) },
	}
	if p.Limit == 0 {
		p.Limit = api.MaxTriggers
	}
	if body.PID != 0 {
		var err error
		if p.Process, err = s.ownProcess(ctx, body.PID); err != nil {
			return api.Triggers{}, err
		}
	}
	return s.broker.Poll(ctx, p)
}

// ownProcess finds one of the caller's processes, on the machine where the caller came in.
func (s *Server) ownProcess(ctx context.Context, pid int) (keepers.Process, error) {
	if !sameMachine(ctx) {
		return keepers.Process{}, api.NewProblem(api.CodeOtherMachine,
			fmt.Sprintf("process %d is on another machine than the daemon, or in another container, where it cannot be watched: leave --pid out, and renew, or use dibs run", pid))
	}
	p, err := s.machines.Find(ctx, guest(ctx).Member, pid)
	if unheard, ok := errors.AsType[*UnheardError](err); ok {
		return p, unheard.problem()
	}
	if errors.Is(err, keepers.ErrNoProcess) {
		return p, invalid("body.pid", fmt.Errorf("a process of this machine is wanted: %w", err))
	}
	if err != nil {
		return p, api.NewProblem(api.CodeOtherMachine,
			fmt.Sprintf("process %v; or leave --pid out, and renew, or use dibs run", err))
	}
	if uid := caller(ctx); uid > 0 && p.UID != uid {
		return p, invalid("body.pid", fmt.Errorf("process %d is another user's: name one of your own", pid))
	}
	return p, nil
}

func (s *Server) ack(ctx context.Context, in *api.AckInput) (api.Acked, error) {
	if err := s.broker.Authorize(in.Name, asks(ctx)); err != nil {
		return api.Acked{}, err
	}
	return s.broker.Ack(ctx, in.Name, in.Body.IDs)
}

func (s *Server) ackAny(ctx context.Context, in *api.KeyedInput[api.AckRequest]) (api.Acked, error) {
	return s.broker.AckAny(ctx, in.Body.IDs, asks(ctx))
}

func (s *Server) message(ctx context.Context, in *api.KeyedInput[api.MessageRequest]) (api.Message, error) {
	if err := s.authorizeNamed(ctx, in.Body.From); err != nil {
		return api.Message{}, err
	}
	said := broker.Message{
		From: in.Body.From, By: signature(ctx, in.Body.From), To: in.Body.To, Text: in.Body.Text, Keyed: keyedBy(ctx),
		Admit: func(agents int) error { return s.chargeCopies(ctx, agents, in.Body.Text) },
	}
	return s.broker.Send(ctx, said)
}
