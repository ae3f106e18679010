package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
)

// Records reads the record of what happened.
type Records interface {
	Log(context.Context, api.LogFilter) (api.Log, error)

	// Events returns the next events, and waits if there are none. next is the id to continue
	// after. It fails with broker.ErrStopping.
	Events(ctx context.Context, f api.EventFilter, wait time.Duration) (events []api.Event, next int64, err error)

	// Await says that somebody waits for what people do in Notion, until done is called.
	Await() (done func())

	// Watch returns a claim when it ends, when there is an event of it after that one, or when the
	// wait is over. It fails as Lookup does, and with broker.ErrStopping.
	Watch(ctx context.Context, r broker.Ref, after int64, wait time.Duration) (api.Claim, error)

	// Story tells what happened to the claim or the task that r names. It fails with
	// claim.ErrUnknownClaim or broker.ErrNoTask.
	Story(ctx context.Context, r broker.Ref) (api.Story, error)

	// Report tells how agents did in the last days.
	Report(ctx context.Context, days int) (api.Report, error)
}

func (s *Server) agents(ctx context.Context, in *api.ListAgentsInput) (api.Agents, error) {
	return s.broker.Agents(ctx, in.Days)
}

func (s *Server) story(ctx context.Context, in *api.StoryInput) (api.Story, error) {
	ref, err := s.refTo(ctx, in.ID, "")
	if err != nil {
		return api.Story{}, err
	}
	return s.broker.Story(ctx, ref)
}

func (s *Server) report(ctx context.Context, in *api.ReportInput) (api.Report, error) {
	return s.broker.Report(ctx, in.Days)
}
