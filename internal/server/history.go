package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
)

// Records is what happened.
type Records interface {
	Log(context.Context, api.LogFilter) (api.Log, error)

	// Events returns the next events, after waiting for one if there are none, and the id
	// after which to read on. It fails with broker.ErrStopping.
	Events(ctx context.Context, f api.EventFilter, wait time.Duration) (events []api.Event, next int64, err error)

	// Watch returns a claim once it has ended or there is an event about it after
	// that one, or once the wait is over. It fails as Lookup does, and with
	// broker.ErrStopping.
	Watch(ctx context.Context, r broker.Ref, after int64, wait time.Duration) (api.Claim, error)

	// History returns what happened in the last hours, in at most that many steps.
	History(ctx context.Context, hours, points int) (api.History, error)
}

func (s *Server) agents(ctx context.Context, in *api.ListAgentsInput) (api.Agents, error) {
	return s.broker.Agents(ctx, in.Days)
}

func (s *Server) history(ctx context.Context, in *api.HistoryInput) (api.History, error) {
	return s.broker.History(ctx, in.Hours, in.Points)
}
