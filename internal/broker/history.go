package broker

import (
	"context"
	"math"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/history"
	"dibs/internal/task"
)

// Past keeps statistics.
type Past interface {
	// History returns the counts of each step of a window.
	History(context.Context, history.Window) ([]history.Counts, error)
	// Agents returns the record of each agent, the one last seen first.
	Agents(context.Context, history.Asking) ([]history.Agent, error)
	// Day returns when the day of now began, and when it ends, see brake.Bounds.
	Day(now time.Time) (from, until time.Time)
	// Spent returns what was used, by agent.
	Spent(context.Context, history.Spending) ([]history.Spent, error)
	// Ended returns the claims that ended from one time on and before another, in that order.
	Ended(ctx context.Context, from, to time.Time) ([]claim.Hold, error)
}

// Backlog returns how many tasks are open and nobody's, and how many claims are held.
func (b *Broker) Backlog() (open, held int) {
	for t := range b.mirror.Tasks() {
		if _, taken := b.claimer.On(t.ID); t.Status == task.Open && !t.Trashed && t.Outside == "" && !taken {
			open++
		}
	}
	return open, b.claimer.Holding()
}

// History returns the counts of the last hours, in at most that many steps. Both must be within the
// bounds of package history.
func (b *Broker) History(ctx context.Context, hours, points int) (api.History, error) {
	w := history.Last(b.now(), hours, points)
	steps, err := b.past.History(ctx, w)
	if err != nil {
		return api.History{}, err
	}
	number := func(name history.Name) []int {
		return each(steps, func(c history.Counts) int { return c[name] })
	}
	quantile := func(of func(history.Counts, float64) (time.Duration, bool), part float64) []*float64 {
		return each(steps, func(c history.Counts) *float64 {
			if length, ok := of(c, part); ok {
				return new(length.Round(time.Millisecond).Seconds())
			}
			return nil
		})
	}
	mean := func(name history.Name) []*float64 {
		return each(steps, func(c history.Counts) *float64 {
			if n, ok := c.Mean(name); ok {
				return new(math.Round(n*10) / 10)
			}
			return nil
		})
	}
	usd := each(steps, func(c history.Counts) float64 { return api.USD(int64(c[history.Micros])) })
	out := api.History{
		From: b.time(w.From), To: b.time(w.To()), StepSeconds: int(w.Step.Seconds()),
		Granted: number(history.Granted), Completed: number(history.Completed), Failed: number(history.Failed),
		Lost: number(history.Lost), Swept: number(history.Swept), Denied: make(map[string][]int),
		Tokens: number(history.Tokens), USD: usd,
		WaitP50: quantile(history.Counts.Wait, 0.5), WaitP90: quantile(history.Counts.Wait, 0.9),
		WorkP50: quantile(history.Counts.Work, 0.5), WorkP90: quantile(history.Counts.Work, 0.9),
		Backlog: mean(history.Backlog), Held: mean(history.Held),
		Requests: number(history.Requests), Budget: int(math.Round(b.house.Rate() * w.Step.Seconds())),
	}
	for _, step := range steps {
		for name := range step {
			if code, ok := name.Code(); ok && out.Denied[string(code)] == nil {
				out.Denied[string(code)] = number(name)
			}
		}
	}
	return out, nil
}

const (
	// maxAgents limits the list of agents.
	maxAgents = 500
	// medianDays is the number of days that a median covers.
	medianDays = 7
)

// Agents returns the agents seen in the last days, the one last seen first.
func (b *Broker) Agents(ctx context.Context, days int) (api.Agents, error) {
	now := b.now()
	today, _ := b.past.Day(now)
	agents, err := b.past.Agents(ctx, history.Asking{
		Since: now.AddDate(0, 0, -days), Limit: maxAgents,
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
