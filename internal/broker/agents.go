package broker

import (
	"cmp"
	"fmt"
	"slices"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Agent is a name that may be used, and who may use it.
type Agent struct {
	// Name stands for all names that begin like it if it ends in *.
	Name string
	// UIDs are the users who may go by the name; none means any.
	UIDs []int
	// Limit is how many tasks the agent may have at a time, 0 for any number; nil means
	// as many as the protocol's policy says.
	Limit *int
}

// entry returns what agents say of a name: by the name itself, or else by the longest
// pattern that covers it; false if nothing does.
func entry(agents []Agent, name string) (Agent, bool) {
	var covering []Agent
	for _, a := range agents {
		switch {
		case a.Name == name:
			return a, true
		case task.IsAgentPattern(a.Name) && task.MatchAgent(a.Name, name):
			covering = append(covering, a)
		}
	}
	if len(covering) == 0 {
		return Agent{}, false
	}
	return slices.MaxFunc(covering, func(a, b Agent) int { return cmp.Compare(len(a.Name), len(b.Name)) }), true
}

// configured returns Config.Agents as they are now.
func (b *Broker) configured() []Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents
}

// agentsOf returns the agents that a member's configuration lists, or this one's.
func (b *Broker) agentsOf(member string) (agents []Agent, known bool) {
	if member == "" {
		return b.configured(), true
	}
	if b.cluster == nil {
		return nil, false
	}
	return b.cluster.AgentsAt(member)
}

// SetAgents changes Config.Agents. Claims that are held stay held.
func (b *Broker) SetAgents(agents []Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents = agents
}

// Caller is who asks: a user, -1 if unknown, of the machine of a member, empty for this one.
type Caller struct {
	UID    int
	Member string
}

// Authorize says whether a caller may go by the name agent, as the configuration of the member
// says at which it came in. An unknown user may use only names that are open to everybody.
func (b *Broker) Authorize(agent string, who Caller) error {
	if err := task.ValidateAgent(agent); err != nil {
		return &InvalidError{Detail: err.Error()}
	}
	agents, known := b.agentsOf(who.Member)
	if !known {
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("which names the users of %s may go by is not known yet: ask again, or see dibs cluster", who.Member)}
	}
	if len(agents) == 0 {
		return nil
	}
	a, listed := entry(agents, agent)
	switch {
	case !listed:
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("%q is not among the agents of this daemon; use one of those configured, or add it to `agents`", agent)}
	case len(a.UIDs) > 0 && !slices.Contains(a.UIDs, who.UID):
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("user %d may not go by the name %q; its `uids` in the configuration say who may", who.UID, agent)}
	}
	return nil
}

// limit is how many tasks an agent may have at a time, 0 for any number.
func (b *Broker) limit(agent string, p claim.Policy) int {
	if a, listed := entry(b.configured(), agent); listed && a.Limit != nil {
		return *a.Limit
	}
	return p.MaxPerAgent
}
