package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/task"
)

// Claims makes, keeps and ends claims. A pending claim was accepted and is owed to Notion.
type Claims interface {
	// Claim fails with *claim.Denied, *broker.InvalidError or *broker.ForbiddenError.
	Claim(context.Context, broker.Request) (api.Claim, error)

	// Renew fails with *claim.Lost, claim.ErrUnknownClaim, *broker.AmbiguousError or
	// *claim.StoreError.
	Renew(context.Context, broker.Ref) (api.Claim, error)

	// Keep binds a claim to a process that keeps it alive. It fails as Renew does.
	Keep(context.Context, broker.Ref, keepers.Keeper) (api.Claim, error)

	// Adopt is Keep for a claim whose keepers are all gone; it leaves any other as it is.
	Adopt(context.Context, broker.Ref, keepers.Keeper) (api.Claim, error)

	// Connect keeps a claim alive for a connection until leave is called, and for the grace period
	// after that. If the renewal is pending, it keeps nothing alive and leave is nil. It fails as
	// Renew does.
	Connect(ctx context.Context, r broker.Ref, grace time.Duration) (c api.Claim, leave func(), err error)

	// Spend notes what was used for a claim so far. It fails with claim.ErrUnknownClaim.
	Spend(context.Context, claim.ID, claim.Usage) error

	// Finish fails as Renew does.
	Finish(context.Context, broker.Ref, claim.Finish) (api.Claim, error)

	// Claims returns the claims held here: the agent's, or all if agent is empty.
	Claims(agent string) api.Claims

	// Lookup returns a claim, even one that has ended.
	Lookup(context.Context, broker.Ref) (api.Claim, error)

	// AddAttempts adds to the tasks of claims what became of the earlier claims on them.
	AddAttempts(context.Context, ...*api.Claim)
}

func (s *Server) claim(ctx context.Context, in *api.KeyedInput[api.ClaimRequest]) (api.Claim, error) {
	if err := s.broker.Authorize(in.Body.Agent, asks(ctx)); err != nil {
		return api.Claim{}, err
	}
	request := broker.Request{
		Agent:   in.Body.Agent,
		Timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute,
		Wait:    time.Duration(in.Body.WaitSeconds * float64(time.Second)),
		Keyed:   keyedBy(ctx),
		Filter:  in.Body.Filter,
	}
	if !in.Body.Filter.Empty() && in.Body.Task != "" {
		return api.Claim{}, invalid("body.task", errors.New("a filter (priority, where, text) goes with the next ready task, not with one that is named: leave one of them out"))
	}
	if len(in.Body.Except) > 0 && in.Body.Task != "" {
		return api.Claim{}, invalid("body.except", errors.New("it goes with the next ready task, not with one that is named: leave one of them out"))
	}
	for i, s := range in.Body.Except {
		id, err := task.ParseID(s)
		if err != nil {
			return api.Claim{}, invalid(fmt.Sprintf("body.except[%d]", i), err)
		}
		request.Except = append(request.Except, id)
	}
	var err error
	if request.Keeper, err = s.keeperOf(ctx, in.Body.Keeper); err != nil {
		return api.Claim{}, err
	}
	if in.Body.Task != "" {
		if request.Task, err = s.named(ctx, "body.task", in.Body.Task); err != nil {
			return api.Claim{}, err
		}
	}
	return s.broker.Claim(ctx, request)
}

func (s *Server) claims(ctx context.Context, in *api.AgentFilter) (api.Claims, error) {
	out := s.broker.Claims(in.Agent)
	var all []*api.Claim
	for i := range out.Claims {
		all = append(all, &out.Claims[i])
	}
	s.broker.AddAttempts(ctx, all...)
	return out, nil
}

func (s *Server) lookup(ctx context.Context, in *api.GetClaimInput) (api.Claim, error) {
	ref, err := s.refTo(ctx, in.ID, in.Agent)
	if err != nil {
		return api.Claim{}, err
	}
	ask := s.broker.Lookup
	if in.Wait != "" {
		ask = func(ctx context.Context, ref broker.Ref) (api.Claim, error) { return s.watch(ctx, ref, in) }
	}
	c, err := ask(ctx, ref)
	if err == nil {
		s.broker.AddAttempts(ctx, &c)
	}
	return c, err
}

// finish ends a claim as f says.
func (s *Server) finish(ctx context.Context, id, agent string, used api.Used, f claim.Finish) (api.Claim, error) {
	return s.change(ctx, id, agent, used, func(ctx context.Context, ref broker.Ref) (api.Claim, error) {
		return s.broker.Finish(ctx, ref, f)
	})
}

func (s *Server) renew(ctx context.Context, in *api.ClaimInput[api.RenewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	keeper, err := s.keeperOf(ctx, body.Keeper)
	if err != nil {
		return api.Claim{}, err
	}
	renew := s.broker.Renew
	switch {
	case body.Orphaned && body.PID == 0:
		return api.Claim{}, invalid("body.orphaned", errors.New("who is to take the claim over? name a process in pid"))
	case body.Orphaned:
		renew = func(ctx context.Context, r broker.Ref) (api.Claim, error) { return s.broker.Adopt(ctx, r, keeper) }
	case body.PID != 0:
		renew = func(ctx context.Context, r broker.Ref) (api.Claim, error) { return s.broker.Keep(ctx, r, keeper) }
	}
	return s.change(ctx, in.ID, body.Agent, body.Used, func(ctx context.Context, r broker.Ref) (api.Claim, error) {
		r.Report = claim.Report{Progress: body.Progress}
		return renew(ctx, r)
	})
}

func (s *Server) complete(ctx context.Context, in *api.ClaimInput[api.CompleteRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return s.finish(ctx, in.ID, body.Agent, body.Used, claim.Finish{As: claim.EndCompleted, Summary: body.Summary, Evidence: evidence(body.Evidence)})
}

// evidence folds each piece of evidence into a line, and leaves out the empty ones.
func evidence(said []string) (lines []string) {
	for _, s := range said {
		if line := task.Brief(s, maxEvidence); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// maxEvidence limits the characters of one piece of evidence.
const maxEvidence = 500

func (s *Server) review(ctx context.Context, in *api.ClaimInput[api.ReviewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return s.finish(ctx, in.ID, body.Agent, body.Used, claim.Finish{As: claim.EndReview, Summary: body.Note, Mention: body.Mention})
}

func (s *Server) release(ctx context.Context, in *api.ClaimInput[api.StopRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	f := claim.Finish{As: claim.EndReleased, Summary: body.Reason, Unheard: body.Unheard}
	if body.By != "" {
		if err := s.broker.AuthorizeSigner(body.By, asks(ctx)); err != nil {
			return api.Claim{}, err
		}
		f.By, f.User = body.By, signature(ctx, "")
	}
	return s.finish(ctx, in.ID, body.Agent, body.Used, f)
}

func (s *Server) block(ctx context.Context, in *api.ClaimInput[api.BlockRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return s.finish(ctx, in.ID, body.Agent, body.Used, claim.Finish{As: claim.EndBlocked, Summary: body.Reason, Mention: body.Mention})
}

func (s *Server) fail(ctx context.Context, in *api.ClaimInput[api.FailRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return s.finish(ctx, in.ID, body.Agent, body.Used, claim.Finish{As: claim.EndFailed, Summary: body.Reason, Reopen: body.Reopen, Mention: body.Mention})
}

func (s *Server) ask(ctx context.Context, in *api.ClaimInput[api.AskRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return s.finish(ctx, in.ID, body.Agent, body.Used, claim.Finish{As: claim.EndBlocked, Summary: body.Text, Mention: body.To, Ask: true})
}

// change checks that the caller may act on a claim, notes what was used for it, and calls do with its
// id. The claim is looked up only once, so that do changes the very claim that was authorized.
func (s *Server) change(ctx context.Context, id, agent string, used api.Used, do func(context.Context, broker.Ref) (api.Claim, error)) (api.Claim, error) {
	ref, err := s.refTo(ctx, id, agent)
	if err != nil {
		return api.Claim{}, err
	}
	if err := s.authorizeNamed(ctx, agent); err != nil {
		return api.Claim{}, err
	}
	found, err := s.broker.Lookup(ctx, ref)
	if err != nil {
		return api.Claim{}, err
	}
	if found.Agent != agent {
		if err := s.broker.Authorize(found.Agent, asks(ctx)); err != nil {
			return api.Claim{}, err
		}
	}
	ref.Claim = string(found.ID)
	spent := used.Usage.Report()
	if id == api.OnlyClaim && found.Outcome != "" && len(s.broker.Claims(agent).Claims) > 0 {
		spent = claim.Usage{} // it may be another claim's
	}
	if err := s.broker.Spend(ctx, found.ID, spent); err != nil {
		return api.Claim{}, err
	}
	c, err := do(ctx, ref)
	lost, ok := errors.AsType[*claim.Lost](err)
	switch {
	case ok && id == api.OnlyClaim:
		return api.Claim{}, s.notMeant(agent, lost)
	case ok && !spent.None():
		over := *lost
		over.Detail += "; what was used for it is counted"
		err = &over
	}
	return c, err
}

// notMeant refuses a request that named no claim, because one was lost. It lists the agent's other
// claims, which are untouched.
func (s *Server) notMeant(agent string, lost *claim.Lost) *api.Problem {
	p := s.broker.Problem(lost)
	p.Claims = s.broker.Claims(agent).Claims
	switch len(p.Claims) {
	case 0:
	case 1:
		p.Detail += fmt.Sprintf("; nothing was done to %s, which %s holds too: name it if you mean it", nameOf(p.Claims[0].Task), agent)
	default:
		p.Detail += fmt.Sprintf("; nothing was done to the %d tasks that %s holds too: name the one you mean", len(p.Claims), agent)
	}
	return p
}

// refTo resolves the id in a path to a claim.
func (s *Server) refTo(ctx context.Context, id, agent string) (broker.Ref, error) {
	if id == api.OnlyClaim {
		if agent == "" {
			return broker.Ref{}, invalid("agent", fmt.Errorf("which agent's only claim? name the agent, or the claim by its id"))
		}
		return broker.Ref{Agent: agent}, nil
	}
	if claimID, ok := claim.ParseID(id); ok {
		return broker.Ref{Claim: string(claimID), Agent: agent}, nil
	}
	taskID, err := s.named(ctx, "path.id", id)
	if _, bad := errors.AsType[*api.Problem](err); bad {
		return broker.Ref{}, invalid("path.id", fmt.Errorf("%q is neither the id of a claim nor of a task", id))
	}
	if err != nil {
		return broker.Ref{}, err
	}
	return broker.Ref{Claim: string(taskID), Agent: agent}, nil
}

// invalid returns the problem for an unusable part of a request.
func invalid(location string, err error) *api.Problem {
	p := api.NewProblem(api.CodeInvalidRequest, location+": "+err.Error())
	p.Errors = []api.Fault{{Location: location, Message: err.Error()}}
	return p
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
