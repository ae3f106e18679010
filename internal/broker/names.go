package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
)

// Names stores minted names.
type Names interface {
	// SessionName returns the name of a user's session and when the session last asked for it;
	// empty if it has none, or has not asked since gone.
	SessionName(ctx context.Context, uid int, session string, gone time.Time) (name string, used time.Time, err error)
	// MintName returns a session's name, or mints one.
	MintName(context.Context, task.Mint) (name string, minted bool, err error)
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
		Agent: agent, Claims: b.Claims(agent).Claims, Lost: []api.Claim{},
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
	n, err := b.available(ctx, agent)
	return waiting.Count + min(n, 1), err
}

// ErrNoName is the error for a session that has no name.
var ErrNoName = errors.New("this session has no name yet: it gets one when it first asks with --agent auto")
