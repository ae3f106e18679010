package broker

import (
	"context"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/report"
	"dibs/internal/task"
)

// GetAgent describes an agent, or that of a session, and says whether the caller may use its name. It
// takes nothing from the inbox, and does not prolong the session's right to the name. The error is an
// *InvalidError, ErrNoName, or the journal's.
func (b *Broker) GetAgent(ctx context.Context, who Caller, in *api.GetAgentInput) (api.Agent, error) {
	if in.Name != task.AutoAgent || in.Session == "" {
		return b.identify(ctx, who, in.Name)
	}
	name, _, err := b.names.SessionName(ctx, who.UID, in.Session, time.Now().Add(-task.NameKept))
	if err != nil {
		return api.Agent{}, err
	}
	if name == "" {
		return api.Agent{}, ErrNoName
	}
	return b.identify(ctx, who, name)
}

func (b *Broker) identify(ctx context.Context, who Caller, agent string) (api.Agent, error) {
	if err := task.ValidateAgent(agent); err != nil {
		return api.Agent{}, &InvalidError{Detail: err.Error()}
	}
	waiting, err := b.waiting(ctx, agent)
	if err != nil {
		return api.Agent{}, err
	}
	losses, err := b.journal.Losses(ctx, agent)
	if err != nil {
		return api.Agent{}, err
	}
	out := api.Agent{
		Agent: agent, Claims: each(b.claimer.Claims(agent), b.claim), Lost: []api.Claim{},
		MaxPerAgent: b.limit(agent, b.claimer.Policy()), Inbox: waiting,
	}
	paused, err := b.journal.Brake(ctx)
	if err != nil {
		return api.Agent{}, err
	}
	for _, p := range paused.InForce(b.now()) {
		if p.Of(agent) {
			out.Paused = new(b.pause(p))
			break
		}
	}
	for _, l := range losses {
		if !l.Told {
			out.Lost = append(out.Lost, b.claim(l.Hold))
		}
	}
	if who.UID >= 0 {
		out.UID = &who.UID
	}
	forbidden := b.Authorize(agent, who)
	if out.Allowed = forbidden == nil; !out.Allowed {
		out.Reason = api.Saying(forbidden)
	}
	return out, nil
}

// waiting returns how many triggers a poll of the agent would get.
func (b *Broker) waiting(ctx context.Context, agent string) (int, error) {
	waiting, err := b.inbox.Inbox.Waiting(ctx, agent)
	if err != nil || !waiting.Available {
		return waiting.Count, err
	}
	n, _, err := b.available(ctx, agent, workplace{})
	return waiting.Count + min(n, 1), err
}

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

const (
	// maxAgents limits the list of agents.
	maxAgents = 500
	// medianDays is the number of days that a median covers.
	medianDays = 7
)
