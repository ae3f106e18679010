package broker

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/history"
)

// Past is where it is counted what happened.
type Past interface {
	// History returns what happened in each step of a window.
	History(context.Context, history.Window) ([]history.Counts, error)
	// Agents returns how agents do, the one last seen first.
	Agents(context.Context, history.Asking) ([]history.Agent, error)
}

// History is what happened in the steps of a window. Its times are Notion's.
type History struct {
	history.Window
	Steps []history.Counts
	// Budget is how many requests to Notion a step has room for.
	Budget int
}

// History returns what happened in the last hours, in at most that many steps. Both are
// within the bounds of package history.
func (b *Broker) History(ctx context.Context, hours, points int) (History, error) {
	h := History{Window: history.Last(b.now(), hours, points)}
	h.Budget = int(math.Round(b.rate() * h.Step.Seconds()))
	var err error
	h.Steps, err = b.past.History(ctx, h.Window)
	return h, err
}

// Doing is how an agent does, and what it has.
type Doing struct {
	history.Agent
	Claims  []claim.Claim // oldest first
	Waiting int           // how many triggers a poll would get
}

const (
	// maxAgents is how many agents are listed at most.
	maxAgents = 500
	// medianDays is of how many days the median is.
	medianDays = 7
)

// Agents returns the agents seen in the last days, the one last seen first.
func (b *Broker) Agents(ctx context.Context, days int) ([]Doing, error) {
	now, here := b.now(), time.Now()
	year, month, day := here.Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, here.Location())
	agents, err := b.pastAgents(ctx, history.Asking{
		Since: now.AddDate(0, 0, -days), Limit: maxAgents,
		DoneSince: now.Add(midnight.Sub(here)), MedianSince: now.AddDate(0, 0, -medianDays),
	}, days)
	if err != nil {
		return nil, err
	}
	held := make(map[string][]claim.Claim)
	for _, c := range b.claimer.Claims("") {
		held[c.Agent] = append(held[c.Agent], c)
	}
	if r := recalling(ctx); r != nil && !r.At().IsZero() {
		agents = withHolders(agents, held)
	}
	doing := make([]Doing, len(agents))
	for i, a := range agents {
		doing[i] = Doing{Agent: a, Claims: held[a.Name]}
		doing[i].Waiting, err = b.waiting(ctx, a.Name)
		if err != nil && !(recalling(ctx) != nil && unreachable(err)) { // else none that is remembered
			return nil, err
		}
	}
	return doing, nil
}

// withHolders adds to agents from memory, which are as they were a while ago, those that have
// claimed since.
func withHolders(agents []history.Agent, held map[string][]claim.Claim) []history.Agent {
	held = maps.Clone(held)
	for _, a := range agents {
		delete(held, a.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		agents = slices.Insert(agents, 0, history.Agent{Name: name, Seen: held[name][len(held[name])-1].Started})
	}
	return agents
}
