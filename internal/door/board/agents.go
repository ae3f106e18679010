package board

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/task"
)

// worker is an agent, as a page shows it.
type worker struct {
	api.AgentSummary
	Name   string
	Median time.Duration // zero for none
	Held   []card
}

// agents lists the agents of the last seven days; those that hold something come first.
func (b *Board) agents(ctx context.Context, _ url.Values) (view, error) {
	v := view{Name: "agents", Title: "Agents", Template: "agents.html", Every: 3 * time.Second}
	known, err := client.Do(ctx, b.Daemon, api.OpListAgents, api.ListAgentsInput{})
	if err != nil {
		return v, err
	}
	var workers []worker
	listed := make(map[string]bool)
	for _, a := range known.Agents {
		if a.Agent == b.User && len(a.Claims) == 0 {
			continue // who offers is no agent yet
		}
		listed[text(a.Agent, 80)] = true
		k := worker{AgentSummary: a, Name: text(a.Agent, 80)}
		if a.MedianSeconds != nil {
			k.Median = time.Duration(*a.MedianSeconds * float64(time.Second))
		}
		for _, c := range a.Claims {
			k.Held = append(k.Held, cardOf(api.Task{TaskRef: c.Task, Agent: c.Agent, ClaimID: c.ID, Progress: c.Progress, ClaimedAt: c.ClaimedAt, ExpiresAt: c.ExpiresAt}))
		}
		workers = append(workers, k)
	}
	for _, c := range b.state.current().Cards { // not through this daemon, or not any more
		if c.Column == string(task.InProgress) && !listed[c.Agent] {
			workers = append(workers, worker{Name: c.Agent, Held: []card{c}})
		}
	}
	slices.SortStableFunc(workers, func(a, b worker) int { return cmp.Compare(min(1, len(b.Held)), min(1, len(a.Held))) })
	v.Body = workers
	return v, nil
}

// condition is the state of the daemon, and of its cluster if it has one.
type condition struct {
	api.Status
	Bad       []trouble
	Members   []api.Member
	NoMembers string // why the members cannot be shown
	Said      string
}

// health says whether all is well, and what is not.
func (b *Board) health(ctx context.Context, q url.Values) (view, error) {
	v := view{Name: "health", Title: "Health", Template: "health.html", Every: 3 * time.Second}
	status, err := client.Do(ctx, b.Daemon, api.OpStatus, struct{}{})
	if err != nil {
		return v, err
	}
	how := condition{Status: status, Said: doneOf(q.Get("done"))}
	g := b.state.current()
	g.Health.Trouble = "" // its error follows
	for _, t := range troubles(g, overview{}) {
		how.Bad = append(how.Bad, trouble{Text: t.Text})
	}
	for _, why := range append([]string{status.Notion.LastError, status.Outbox.LastError, status.Policy.Stranger}, status.Warnings...) {
		if why != "" {
			how.Bad = append(how.Bad, trouble{Text: text(why, 2*maxLine)})
		}
	}
	if status.Cluster != nil {
		// Show the daemon even if the cluster cannot be asked.
		cluster, err := client.Do(ctx, b.Daemon, api.OpCluster, struct{}{})
		if how.Members = cluster.Members; err != nil {
			how.NoMembers = text(err.Error(), 2*maxLine)
			how.Bad = append(how.Bad, trouble{Text: how.NoMembers})
		}
	}
	v.Body = how
	return v, nil
}
