package broker

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/report"
)

// Past keeps statistics.
type Past interface {
	// Agents returns the record of each agent, the one last seen first.
	Agents(context.Context, report.Asking) ([]report.Agent, error)
	// Day returns when the day of now began, and when it ends, see brake.Bounds.
	Day(now time.Time) (from, until time.Time)
	// Spent returns what was used, by agent.
	Spent(context.Context, report.Spending) ([]report.Spent, error)
	// Ended returns the claims that ended from one time on and before another, in that order.
	Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error)
}

const (
	// maxAgents limits the list of agents.
	maxAgents = 500
	// medianDays is the number of days that a median covers.
	medianDays = 7
)

// ListAgents returns the agents seen in the last days, the one last seen first.
func (b *Broker) ListAgents(ctx context.Context, _ Caller, in *api.ListAgentsInput) (api.Agents, error) {
	now := b.now()
	today, _ := b.past.Day(now)
	agents, err := b.past.Agents(ctx, report.Asking{
		Since: now.AddDate(0, 0, -in.Days), Limit: maxAgents,
		DoneSince: today, MedianSince: now.AddDate(0, 0, -medianDays),
	})
	if err != nil {
		return api.Agents{}, err
	}
	held := make(map[string][]claim.Hold)
	for _, c := range b.claimer.Claims("") {
		held[c.Agent] = append(held[c.Agent], c)
	}
	out := api.Agents{Agents: make([]api.AgentSummary, len(agents))}
	for i, a := range agents {
		waiting, err := b.waiting(ctx, a.Name)
		if err != nil {
			return api.Agents{}, err
		}
		out.Agents[i] = api.AgentSummary{
			Agent: a.Name, Claims: each(held[a.Name], b.claim), DoneToday: a.Done, LastSeen: b.time(a.Seen), Inbox: waiting,
			UsageToday: api.NewUsage(a.UsedToday), Usage: api.NewUsage(a.Used),
		}
		if a.Median != nil {
			out.Agents[i].MedianSeconds = new(a.Median.Seconds())
		}
	}
	return out, nil
}
