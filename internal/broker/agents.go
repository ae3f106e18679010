package broker

import (
	"fmt"
	"slices"

	"dibs/internal/task"
)

// Authorize says whether the user uid may go by the name agent. An unknown
// user, -1, may use only names that are open to everybody.
func (b *Broker) Authorize(agent string, uid int) error {
	if err := task.ValidateAgent(agent); err != nil {
		return &InvalidError{Detail: err.Error()}
	}
	b.mu.Lock()
	agents := b.agents
	b.mu.Unlock()
	if len(agents) == 0 {
		return nil
	}
	i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == agent })
	switch {
	case i < 0:
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("%q is not among the agents of this daemon; use one of those configured, or add it to `agents`", agent)}
	case len(agents[i].UIDs) > 0 && !slices.Contains(agents[i].UIDs, uid):
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("user %d may not go by the name %q; its `uids` in the configuration say who may", uid, agent)}
	}
	return nil
}

// SetAgents changes Config.Agents. Claims that are held stay held.
func (b *Broker) SetAgents(agents []Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents = agents
}
