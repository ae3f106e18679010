package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// Authorize returns an error unless the caller may use the agent's name. The configuration of the
// caller's member decides, and the access token of a caller from another machine. An unknown user may
// use only names that are open to everybody. The error is an *InvalidError or a *ForbiddenError.
func (b *Broker) Authorize(agent string, who Caller) error {
	if err := task.ValidateAgent(agent); err != nil {
		return &InvalidError{Detail: err.Error()}
	}
	if b.mirror != nil {
		b.mirror.Used()
	}
	if err := who.covers(agent); err != nil {
		return err
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
	case who.Access == nil && len(a.UIDs) > 0 && !slices.Contains(a.UIDs, who.UID):
		return &ForbiddenError{Agent: agent, Detail: fmt.Sprintf("user %d may not go by the name %q; its `uids` in the configuration say who may", who.UID, agent)}
	}
	return nil
}

// AuthorizeSigner returns an error unless the caller may act under a name that need not be an
// agent's: a person's name is taken as given, and recorded with the user of the machine.
func (b *Broker) AuthorizeSigner(name string, who Caller) error {
	if who.Access != nil {
		return errPerson
	}
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

// refresh is how often at most the journal stores that a session asked for its name.
const refresh = time.Minute

// Mint returns the name of a user's session, and mints one if it has none. A new name belongs to no
// agent here and is on no task. Without a session, the name is always new. The error is a
// *ForbiddenError if `agents` allows the user no such name.
func (b *Broker) Mint(ctx context.Context, who Caller, in *api.MintInput) (api.Minted, error) {
	name, minted, err := b.mint(ctx, who, orZero(in.Body).Session)
	if err != nil {
		return api.Minted{}, err
	}
	return api.Minted{Agent: name, Minted: minted}, nil
}

func (b *Broker) mint(ctx context.Context, who Caller, session string) (name string, minted bool, err error) {
	usable := func(name string) bool { return b.Authorize(name, who) == nil }
	now := time.Now()
	m := task.Mint{UID: who.UID, Session: session, Now: now, Gone: now.Add(-task.NameKept), Usable: usable}
	if who.Access != nil {
		if only, _ := who.Named(); only != "" {
			return only, false, b.Authorize(only, who)
		}
		m.Pattern = who.Access.Agent
	}
	known := false
	if session != "" {
		has, used, err := b.names.SessionName(ctx, who.UID, session, m.Gone)
		if err != nil {
			return "", false, err
		}
		if known = has != "" && usable(has); known && now.Sub(used) < refresh {
			return has, false, nil
		}
	}
	if !known {
		if err := b.mintable(m, who); err != nil {
			return "", false, err
		}
	}
	// The mirror is read first: the journal must not wait for it, as it may be waiting for the
	// journal.
	used := b.namesInUse()
	m.Free = func(name string) bool { return !used[name] && usable(name) }
	return b.names.MintName(ctx, m)
}

// mintable returns a *ForbiddenError if the user may not use any name that could be minted.
func (b *Broker) mintable(m task.Mint, who Caller) error {
	name := m.Next()
	agents, _ := b.agentsOf(who.Member)
	if m.Usable(name) {
		return nil
	}
	pattern := task.NamePrefix + "-*"
	if a, listed := entry(agents, name); listed {
		return &ForbiddenError{Agent: name, Detail: fmt.Sprintf("no name can be minted for user %d: the `uids` of %q in `agents` say who may go by one", m.UID, a.Name)}
	}
	return &ForbiddenError{Agent: name, Detail: fmt.Sprintf("no name such as %s can be minted, as `agents` lists who may claim: use one of the names there, or add %q to them", name, pattern)}
}

// namesInUse returns the names that are on tasks or configured.
func (b *Broker) namesInUse() map[string]bool {
	used := make(map[string]bool)
	for t := range b.mirror.Tasks() {
		used[t.ClaimedBy] = true
	}
	for _, a := range b.configured() {
		used[a.Name] = true
	}
	return used
}

// Known returns the configured agents, and those that poll or have a claim.
func (b *Broker) Known(ctx context.Context) ([]string, error) {
	known, err := b.inbox.Inbox.Known(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range b.configured() {
		if !task.IsAgentPattern(a.Name) {
			known = append(known, a.Name)
		}
	}
	slices.Sort(known)
	return slices.Compact(known), nil
}
