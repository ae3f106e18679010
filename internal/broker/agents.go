package broker

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Agent is a name that may be used, and the users who may use it.
type Agent struct {
	// Name is a name, or, if it ends in *, a pattern for all names with that beginning.
	Name string
	// UIDs are the users who may go by the name; none means any.
	UIDs []int
	// Limit is how many tasks the agent may hold at a time, 0 for any number; nil means the
	// policy's limit.
	Limit *int
}

// entry finds the entry for a name: the name itself, or else the longest pattern that covers it. It
// returns false if there is none.
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

// configured returns the current Config.Agents.
func (b *Broker) configured() []Agent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agents
}

// agentsOf returns the agents in a member's configuration; an empty member is this one.
func (b *Broker) agentsOf(member string) (agents []Agent, known bool) {
	if member == "" {
		return b.configured(), true
	}
	if b.cluster == nil {
		return nil, false
	}
	return b.cluster.AgentsAt(member)
}

// SetAgents replaces Config.Agents. It ends no claim.
func (b *Broker) SetAgents(agents []Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents = agents
}

// Caller is who makes a request, as its door knows it.
type Caller struct {
	UID    int    // of the user at the member's machine; -1 if unknown
	Member string // at which the request came in; empty for this one
	// User is what the user signs with, see task.UserSignature, and Own is set for the daemon's user
	// and root.
	User string
	Own  bool
	// Key is the request's idempotency key, of that user; empty for none. A request that comes again
	// under its key does nothing twice.
	Key string
	// Process is the process of the caller's that the request names; zero for none.
	Process keepers.Process
	// Quota bounds what the user may have stored; nil for no bound.
	Quota Quota
}

// Quota bounds what a user may have stored. An error refuses the request.
type Quota interface {
	// Charge counts one request.
	Charge() error
	// ChargeCopies counts the copies of a text for that many agents, beyond one request.
	ChargeCopies(agents int, text string) error
}

// signs returns the user for the record of what is done in no agent's name; empty if there is an
// agent.
func (c Caller) signs(agent string) string {
	if agent != "" {
		return ""
	}
	return c.User
}

// owner returns a *ForbiddenError unless the caller is the daemon's user or root. what is what only
// they may do.
func (c Caller) owner(what string) error {
	if c.Own {
		return nil
	}
	return &ForbiddenError{Detail: "only the daemon's user, and root, " + what}
}

// keeper reads the process that is to keep a claim alive.
func (c Caller) keeper(k api.Keeper) (keepers.Keeper, error) {
	if k.PID == 0 && k.GraceSeconds != 0 {
		return keepers.Keeper{}, api.Invalid("body.grace_seconds", errors.New("a grace is for the end of a process: name that in pid"))
	}
	return keepers.Keeper{Process: c.Process, Grace: seconds(k.GraceSeconds)}, nil
}

// factID is the id of the fact that the request makes at some time. With a key it is the same one
// however often the request comes that says what, also after a crash.
func (c Caller) factID(at time.Time, what ...string) string {
	if c.Key == "" {
		return claim.NewFactID(at)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", c.UID, c.Key, strings.Join(what, "\x00")))
	var id ulid.ULID // of no time
	copy(id[6:], sum[:])
	return id.String()
}

// Authorize returns an error unless the caller may use the agent's name. The configuration of the
// caller's member decides. An unknown user may use only names that are open to everybody. The error
// is an *InvalidError or a *ForbiddenError.
func (b *Broker) Authorize(agent string, who Caller) error {
	if err := task.ValidateAgent(agent); err != nil {
		return &InvalidError{Detail: err.Error()}
	}
	if b.mirror != nil {
		b.mirror.Used()
	}
	agents, known := b.agentsOf(who.Member)
	if !known {
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("the names allowed to users of %s are not known yet: ask again, or see dibs cluster", who.Member)}
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

// AuthorizeSigner returns an error unless the caller may act under a name that need not be an
// agent's: a person's name is taken as given, and recorded with the user of the machine.
func (b *Broker) AuthorizeSigner(name string, who Caller) error {
	agents, known := b.agentsOf(who.Member)
	if _, listed := entry(agents, name); known && !listed && task.ValidateAgent(name) == nil {
		return nil
	}
	return b.Authorize(name, who)
}

// limit returns how many tasks an agent may hold at a time, 0 for any number.
func (b *Broker) limit(agent string, p claim.Policy) int {
	if a, listed := entry(b.configured(), agent); listed && a.Limit != nil {
		return *a.Limit
	}
	return p.MaxPerAgent
}
