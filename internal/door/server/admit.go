package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/task"
)

// admit says who makes a request, and refuses it unless the caller may act as the agent that it
// names. Tasks and claims, which people name by key, URL or id, have their ids in the input
// afterwards, see api.Parts.
func (s *Server) admit(ctx context.Context, in any) (broker.Caller, error) {
	who, parts := s.caller(ctx), api.PartsOf(in)
	if parts.Nobody != nil {
		var err error
		if *parts.Nobody, err = who.Named(); err != nil {
			return who, err
		}
		parts.Actor = *parts.Nobody
	}
	if parts.Actor != "" {
		if err := s.broker.Authorize(parts.Actor, who); err != nil {
			return who, err
		}
	}
	// What is wrong with a request is said before its claim is looked up: that may tell the agent of a
	// loss, and then the answer has to be about the loss.
	if parts.Fault != nil {
		return who, parts.Fault
	}
	if parts.Signer != "" {
		if err := s.broker.AuthorizeSigner(parts.Signer, who); err != nil {
			return who, err
		}
	}
	var err error
	if parts.PID != 0 {
		if who.Process, err = s.ownProcess(ctx, parts.PID); err != nil {
			return who, err
		}
	}
	for _, one := range parts.Tasks {
		id, err := named(ctx, s.broker, one.Location, *one.Text)
		if err != nil {
			return who, err
		}
		*one.Text = string(id)
	}
	if parts.Claim != nil {
		*parts.Claim, err = claimNamed(ctx, s.broker, *parts.Claim, cmp.Or(parts.Owner, parts.Actor))
	}
	return who, err
}

// caller returns the caller of a request as the broker needs it.
func (s *Server) caller(ctx context.Context) broker.Caller {
	g := guest(ctx)
	key, _ := ctx.Value(keyedKey{}).(string)
	return broker.Caller{UID: g.UID, Member: g.Member, User: g.signature(), Own: g.Own, Access: g.access, Key: key, Quota: purse{s, g.UID}}
}

// ownProcess finds one of the caller's processes, on the machine where the caller came in.
func (s *Server) ownProcess(ctx context.Context, pid int) (keepers.Process, error) {
	if !sameMachine(ctx) {
		return keepers.Process{}, api.NewProblem(api.CodeOtherMachine,
			fmt.Sprintf("process %d is on another machine than the daemon, or in another container, where it cannot be watched: leave --pid out, and renew, or use dibs run", pid))
	}
	p, err := s.machines.Find(ctx, guest(ctx).Member, pid)
	if unheard, ok := errors.AsType[*UnheardError](err); ok {
		return p, unheard.problem()
	}
	if errors.Is(err, keepers.ErrNoProcess) {
		return p, api.Invalid("body.pid", fmt.Errorf("a process of this machine is wanted: %w", err))
	}
	if err != nil {
		return p, api.NewProblem(api.CodeOtherMachine,
			fmt.Sprintf("process %v; or leave --pid out, and renew, or use dibs run", err))
	}
	if uid := guest(ctx).UID; uid > 0 && p.UID != uid {
		return p, api.Invalid("body.pid", fmt.Errorf("process %d is another user's: name one of your own", pid))
	}
	return p, nil
}

// named reads a task from a part of a request: its id, its URL or its key.
func named(ctx context.Context, b Broker, location, name string) (task.ID, error) {
	id, err := task.ParseTaskID(name)
	if err == nil {
		return id, nil
	}
	if key, ok := task.ParseKey(name); ok {
		return b.TaskByKey(ctx, key)
	}
	return "", api.Invalid(location, err)
}

// claimNamed reads a claim: its id, the id of its task, or api.OnlyClaim of an agent.
func claimNamed(ctx context.Context, b Broker, name, agent string) (string, error) {
	if name == api.OnlyClaim {
		if agent == "" {
			return "", api.Invalid("agent", fmt.Errorf("which agent's only claim? name the agent, or the claim by its id"))
		}
		return name, nil
	}
	if id, ok := claim.ParseID(name); ok {
		return string(id), nil
	}
	id, err := named(ctx, b, "path.id", name)
	if _, bad := errors.AsType[*api.Problem](err); bad {
		return "", api.Invalid("path.id", fmt.Errorf("%q is neither the id of a claim nor of a task", name))
	}
	return string(id), err
}

// owned finds a claim that the caller may change.
func owned(ctx context.Context, b Broker, who broker.Caller, id, agent string) (api.Claim, error) {
	if agent != "" {
		if err := b.Authorize(agent, who); err != nil {
			return api.Claim{}, err
		}
	}
	found, err := b.Lookup(ctx, id, agent)
	if err == nil && found.Agent != agent {
		err = b.Authorize(found.Agent, who)
	}
	return found, err
}

// notMeant refuses a request that named no claim, because one was lost. It lists the agent's other
// claims, which are untouched.
func notMeant(b Broker, agent string, lost *claim.Lost) *api.Problem {
	p := b.Problem(lost)
	p.Claims = b.Claims(agent).Claims
	switch len(p.Claims) {
	case 0:
	case 1:
		p.Detail += fmt.Sprintf("; nothing was done to %s, which %s holds too: name it if you mean it", titleOf(p.Claims[0].Task), agent)
	default:
		p.Detail += fmt.Sprintf("; nothing was done to the %d tasks that %s holds too: name the one you mean", len(p.Claims), agent)
	}
	return p
}

// titleOf returns how a sentence names a task.
func titleOf(t api.TaskRef) string {
	if t.Title == "" {
		return cmp.Or(t.Key, string(t.ID))
	}
	return strconv.Quote(api.Collapse(t.Title))
}

// Each user may make quotaBurst requests that are metered so (api.ByQuota) at once, and then
// one every quotaEvery. Notion takes three requests a second, for all users together.
//
// A message to all is stored for each agent, and counts once more for each maxBody of that. An
// agent's first poll counts as one, too: the agent is stored, and gets every later message to all
// (see poll).
const (
	quotaBurst = 200
	quotaEvery = 2 * time.Second
	// rowBytes is roughly the size of a message to one agent, without its text.
	rowBytes = 512
)

// purse is a user's quota.
type purse struct {
	of  *Server
	uid int
}

func (p purse) Charge() error { return tooMuch(p.of.quota.Take(p.uid, time.Now())) }

func (p purse) ChargeCopies(agents int, text string) error {
	return tooMuch(p.of.quota.TakeMore(p.uid, agents*(len(text)+rowBytes)/maxBody, time.Now()))
}

// charge counts one request. The error says that the user has asked for too much.
func (s *Server) charge(ctx context.Context) error { return purse{s, caller(ctx)}.Charge() }

func tooMuch(wait time.Duration) error {
	if wait > 0 {
		return overQuota(wait)
	}
	return nil
}

// overQuota refuses a request of a user who has asked for too much. It may be repeated under the
// same idempotency key.
func overQuota(wait time.Duration) *api.Problem {
	p := api.NewProblem(api.Code(claim.CodeLimitReached), "")
	p.Title = "The user has asked for too much at once"
	p.TooOften(wait)
	p.Detail = fmt.Sprintf("rate limit of this user: %d changes at once, then one every %v; nothing was done: try again in %ds",
		quotaBurst, quotaEvery, p.RetryAfter)
	return p
}
