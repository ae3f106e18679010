package server

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/history"
)

// Records is what happened.
type Records interface {
	Log(context.Context, api.LogFilter) ([]claim.Event, error)

	// Events returns the next events, after waiting for one if there are none. It
	// fails with broker.ErrStopping.
	Events(ctx context.Context, f api.EventFilter, wait time.Duration) (broker.Page, error)

	// History returns what happened in the last hours, in at most that many steps.
	History(ctx context.Context, hours, points int) (broker.History, error)

	// Local turns Notion's time into this machine's.
	Local(time.Time) time.Time
}

func (s *Server) agents(ctx context.Context, in *api.ListAgentsInput) (api.Agents, error) {
	agents, err := s.broker.Agents(ctx, in.Days)
	if err != nil {
		return api.Agents{}, err
	}
	return api.Agents{Agents: each(agents, s.summaryOf)}, nil
}

func (s *Server) summaryOf(a broker.Doing) api.AgentSummary {
	out := api.AgentSummary{
		Agent: a.Name, Claims: each(a.Claims, s.claimOf), DoneToday: a.Done, LastSeen: s.localTime(a.Seen), Inbox: a.Waiting,
	}
	if a.Median != nil {
		out.MedianSeconds = new(a.Median.Seconds())
	}
	return out
}

func (s *Server) history(ctx context.Context, in *api.HistoryInput) (api.History, error) {
	h, err := s.broker.History(ctx, in.Hours, in.Points)
	if err != nil {
		return api.History{}, err
	}
	return s.historyOf(h), nil
}

func (s *Server) historyOf(h broker.History) api.History {
	number := func(name history.Name) []int {
		return each(h.Steps, func(c history.Counts) int { return c[name] })
	}
	wait := func(part float64) []*float64 {
		return each(h.Steps, func(c history.Counts) *float64 {
			if waited, ok := c.Wait(part); ok {
				return new(waited.Round(time.Millisecond).Seconds())
			}
			return nil
		})
	}
	out := api.History{
		From: s.localTime(h.From), To: s.localTime(h.To()), StepSeconds: int(h.Step.Seconds()),
		Granted: number(history.Granted), Completed: number(history.Completed), Failed: number(history.Failed),
		Lost: number(history.Lost), Swept: number(history.Swept), Denied: make(map[string][]int),
		WaitP50: wait(0.5), WaitP90: wait(0.9),
		Requests: number(history.Requests), Budget: h.Budget,
	}
	for _, step := range h.Steps {
		for name := range step {
			if code, ok := name.Code(); ok && out.Denied[string(code)] == nil {
				out.Denied[string(code)] = number(name)
			}
		}
	}
	return out
}
