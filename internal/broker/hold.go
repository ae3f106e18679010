package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/claim/keepers"
	"dibs/internal/reserve"
	"dibs/internal/task"
)

// ListClaims returns the claims held through this daemon, oldest first, with the earlier attempts.
func (b *Broker) ListClaims(ctx context.Context, _ Caller, in *api.AgentFilter) (api.Claims, error) {
	out := b.Claims(in.Agent)
	var all []*api.Claim
	for i := range out.Claims {
		all = append(all, &out.Claims[i])
	}
	b.AddAttempts(ctx, all...)
	return out, nil
}

// Claims returns the claims held through this daemon, oldest first. An empty agent means all.
func (b *Broker) Claims(agent string) api.Claims {
	return api.Claims{Claims: each(b.claimer.Claims(agent), b.claim)}
}

// GetClaim finds a claim, and waits for something to happen to it, if the request says so, see Watch.
func (b *Broker) GetClaim(ctx context.Context, _ Caller, in *api.GetClaimInput) (c api.Claim, err error) {
	if in.Wait == "" {
		c, err = b.Lookup(ctx, in.ID, in.Agent)
	} else if _, err = in.WaitFor(); err == nil {
		// A wait outlasts the journal's absence, but does not begin then.
		if err = b.journal.Away(); err == nil {
			c, err = b.Watch(ctx, in)
		}
	}
	if err == nil {
		b.AddAttempts(ctx, &c)
	}
	return c, err
}

// Lookup finds the claim with that id. A task's id names the claim that has the task now. If there is
// none, or if the agent's last claim on it was taken from it, the task's id names the last claim on it
// (of the agent, if given). api.OnlyClaim names the only claim that the agent holds. The error is
// claim.ErrUnknownClaim, an *AmbiguousError, an *InvalidError, or a *claim.Lost if the claim is
// another agent's. If the claim was taken from the agent, its answer counts as notice of the loss.
func (b *Broker) Lookup(ctx context.Context, id, agent string) (api.Claim, error) {
	cl, err := b.lookup(ctx, refTo(id, agent))
	out, err := b.answer(cl, err)
	if err != nil {
		return out, err
	}
	if m, ok := b.claimer.Mark(cl.ID); ok { // of an attempt that was given up, and is not off its page
		out.State, out.Withdrawing, out.Outcome, out.EndedAt = m.Shown(), m.OnPage(), "", api.Time{}
	}
	return out, nil
}

func (b *Broker) lookup(ctx context.Context, r ref) (claim.Hold, error) {
	cl, err := b.find(ctx, r)
	if err != nil {
		return claim.Hold{}, err
	}
	if r.agent != "" && cl.Agent != r.agent {
		return claim.Hold{}, &claim.Lost{Claim: cl, Asked: r.agent, Holder: cl.Agent, Detail: cl.Agent + " has it"}
	}
	b.notifiedByAnswer(ctx, r.agent, cl)
	return cl, nil
}

func (b *Broker) find(ctx context.Context, r ref) (claim.Hold, error) {
	if r.claim == "" {
		return b.only(ctx, r.agent)
	}
	if id, ok := claim.ParseID(r.claim); ok {
		return b.claimer.Find(ctx, id)
	}
	id, err := task.ParseID(r.claim)
	if err != nil {
		return claim.Hold{}, &InvalidError{Detail: fmt.Sprintf("%q is neither the id of a claim nor of a task", r.claim)}
	}
	owns := func(c claim.Hold) bool { return c.State == claim.Held || c.State == claim.Finishing }
	meant := func(c claim.Hold) bool { return r.agent == "" || c.Agent == r.agent }
	holder, taken := b.claimer.On(id)
	if taken = taken && owns(holder); taken && meant(holder) {
		return holder, nil
	}
	claims, err := b.journal.TaskClaims(ctx, id)
	if err != nil {
		return claim.Hold{}, err
	}
	if i := slices.IndexFunc(claims, owns); !taken && i >= 0 { // also one that is being taken over
		holder, taken = claims[i], true
	}
	if taken && !meant(holder) {
		if lost, ok := takenFrom(r.agent, claims); ok {
			return lost, nil
		}
	}
	if taken {
		return holder, nil
	}
	for _, c := range claims {
		if meant(c) && !c.Started.IsZero() {
			return c, nil
		}
	}
	t, _ := b.mirror.Task(id)
	return claim.Hold{}, &noClaimError{t, r.agent}
}

// noClaimError says that a task has no claim, or none of the agent's.
type noClaimError struct {
	task  task.Task
	agent string
}

func (e *noClaimError) Error() string {
	what := "the task"
	if e.task.Title != "" {
		what = fmt.Sprintf("“%s”", e.task.Title)
	}
	if e.agent == "" {
		return "nobody has claimed " + what + " through this daemon"
	}
	return e.agent + " has not claimed " + what + " through this daemon"
}

func (e *noClaimError) Unwrap() error { return claim.ErrUnknownClaim }

// Renew records that the claim's agent is alive, see claim.Claimer.Renew, and binds the claim to a
// process of the caller's, if it names one. While Notion cannot be reached and the lease has not
// ended, the renewal is pending: it is written when Notion is back. If that is too late, the lease
// ends as if it had not been renewed. The error is a *claim.Lost, a *claim.StoreError, or one of
// GetClaim's.
func (b *Broker) Renew(ctx context.Context, who Caller, in *api.ClaimInput[api.RenewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	r := refTo(in.ID, body.Agent)
	report := claim.Report{Progress: body.Progress}
	k, err := who.keeper(body.Keeper)
	switch {
	case err != nil:
		return api.Claim{}, err
	case body.Orphaned:
		return b.answer(b.adopt(ctx, r, report, k))
	case body.PID != 0:
		return b.answer(b.keep(ctx, r, report, k))
	}
	return b.answer(b.renew(ctx, r, report))
}

// renew is Renew, but its error is an *owedError while the renewal is pending.
func (b *Broker) renew(ctx context.Context, r ref, report claim.Report) (claim.Hold, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil {
		return claim.Hold{}, err
	}
	renewed, err := b.claimer.Report(ctx, cl.ID, report)
	b.notifiedByError(ctx, err)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Unavailable {
		held, herr := b.claimer.Find(ctx, cl.ID)
		if herr == nil && held.State == claim.Held && b.now().Before(held.ExpiresAt()) {
			return claim.Hold{}, &owedError{held, err}
		}
	}
	return renewed, err
}

// keep binds the claim to a process: the claim is kept alive while the process lives. It also renews
// the claim.
func (b *Broker) keep(ctx context.Context, r ref, report claim.Report, k keepers.Keeper) (claim.Hold, error) {
	cl, err := b.renew(ctx, r, report)
	if err != nil {
		return cl, err
	}
	return cl, b.alive.Keep(ctx, cl.ID, k)
}

// adopt is keep for a claim whose keepers are all gone. It changes no other claim. It returns the
// claim as it is afterwards.
func (b *Broker) adopt(ctx context.Context, r ref, report claim.Report, k keepers.Keeper) (claim.Hold, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil || !b.alive.KeepersGone(cl.ID) {
		return cl, err
	}
	r.claim = string(cl.ID)
	return b.keep(ctx, r, report, k)
}

// KeepAlive renews the claim and keeps it alive for a connection: until leave is called, and for the
// grace period after that. If the renewal is pending, it keeps nothing alive and leave is nil. The
// error is one of Renew's.
func (b *Broker) KeepAlive(ctx context.Context, _ Caller, in *api.KeepAliveInput) (c api.Claim, leave func(), err error) {
	grace, err := in.Kept()
	if err != nil {
		return c, nil, err
	}
	cl, err := b.renew(ctx, refTo(in.ID, in.Agent), claim.Report{})
	if err == nil {
		leave, err = b.alive.Connect(ctx, cl.ID, grace)
	}
	c, err = b.answer(cl, err)
	return c, leave, err
}

// Spend notes what was used for a claim so far, see claim.Claimer.Spend.
func (b *Broker) Spend(ctx context.Context, id claim.ID, used claim.Usage) error {
	if used.None() {
		return nil
	}
	_, err := b.claimer.Spend(ctx, id, used)
	return err
}

// Complete ends a claim whose work is done. Like the other ways in which an agent ends a claim, it
// fails as GetClaim does, or with a *claim.Lost. A claim returned in state claim.Finishing is still
// owed to Notion. The error is a *NotDoneError, or a *claim.StoreError, if claim.Policy.Todos keeps the
// task from being completed.
func (b *Broker) Complete(ctx context.Context, _ Caller, in *api.ClaimInput[api.CompleteRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndCompleted, Summary: body.Summary, Evidence: lines(body.Evidence, maxEvidence), Files: files(body.Used)})
}

// maxEvidence limits the characters of one piece of evidence.
const maxEvidence = 500

// lines folds each piece into a line of at most so many characters, and leaves out the empty ones.
func lines(pieces []string, most int) (lines []string) {
	for _, piece := range pieces {
		if line := task.Brief(piece, most); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func files(u api.Used) []string { return lines(u.Files, reserve.MaxText) }

// Review ends a claim whose work is done, for a person to decide.
func (b *Broker) Review(ctx context.Context, _ Caller, in *api.ClaimInput[api.ReviewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndReview, Summary: body.Note, Mention: body.Mention, Files: files(body.Used)})
}

// Release gives the task back, or takes it back from its agent, see api.StopRequest.
func (b *Broker) Release(ctx context.Context, who Caller, in *api.ClaimInput[api.StopRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	f := claim.Finish{As: claim.EndReleased, Summary: body.Reason, Unheard: body.Unheard, Files: files(body.Used)}
	if body.By != "" {
		f.By, f.User = body.By, who.User
	}
	return b.end(ctx, refTo(in.ID, body.Agent), f)
}

// Block ends a claim whose work cannot go on.
func (b *Broker) Block(ctx context.Context, _ Caller, in *api.ClaimInput[api.BlockRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndBlocked, Summary: body.Reason, Mention: body.Mention, Files: files(body.Used)})
}

// Fail ends a claim whose work failed.
func (b *Broker) Fail(ctx context.Context, _ Caller, in *api.ClaimInput[api.FailRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndFailed, Summary: body.Reason, Reopen: body.Reopen, Mention: body.Mention, Files: files(body.Used)})
}

// Ask ends a claim with a question to people: the task is blocked until they answer.
func (b *Broker) Ask(ctx context.Context, _ Caller, in *api.ClaimInput[api.AskRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndBlocked, Summary: body.Text, Mention: body.To, Ask: true, Files: files(body.Used)})
}

func (b *Broker) end(ctx context.Context, r ref, f claim.Finish) (api.Claim, error) {
	return b.answer(b.finish(ctx, r, f))
}

// finish ends a claim as its agent says, or f.By in its place. If the agent gives a reason why it
// could not go on, and comments are made, it also owes the task a comment. f.Mention is a Notion
// user to mention in it, by name, e-mail address or id; if that is not exactly one user, the error
// is an *InvalidError and nothing was done. See also claim.Claimer.Finish.
func (b *Broker) finish(ctx context.Context, r ref, f claim.Finish) (claim.Hold, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil {
		return claim.Hold{}, err
	}
	if f.By == cl.Agent {
		f.By, f.User = "", ""
	}
	completes := f.As == claim.EndCompleted
	if completes && b.claimer.Policy().ReviewAll {
		f.As = claim.EndReview
	}
	if f, err = b.comment(ctx, f); err != nil {
		return claim.Hold{}, err
	}
	if earlier := cl.Finish; f.Ask && cl.State != claim.Held && earlier != nil && earlier.As == f.As && (!earlier.Ask || earlier.Summary != f.Summary) {
		return claim.Hold{}, &claim.Lost{Claim: cl, Detail: "it is blocked already: say more with dibs comment"}
	}
	if completes && cl.State == claim.Held && b.claimer.Policy().Todos {
		_, _ = b.claimer.Renew(ctx, cl.ID) // its agent is heard of; the finish tells if it is lost
		if err := b.ticked(ctx, cl.Task); err != nil {
			return claim.Hold{}, err
		}
	}
	cl, err = b.claimer.Finish(ctx, cl.ID, f)
	if errors.Is(err, claim.ErrNoReview) {
		return cl, &InvalidError{err.Error()}
	}
	b.notifiedByError(ctx, err)
	b.Changed()
	return cl, err
}

// Watch waits until a claim ends, or the feed has an event of it with an id above in.After, other than
// that it was claimed. It returns the claim with that event, or without one if the wait ended first. If
// the claim was taken from the agent, the answer counts as notice of the loss. The wait outlasts the
// journal's absence. The error is one of Lookup's, or ErrStopping.
func (b *Broker) Watch(ctx context.Context, in *api.GetClaimInput) (api.Claim, error) {
	wait, err := in.WaitFor()
	if err != nil {
		return api.Claim{}, err
	}
	if !in.Patient && wait > 0 {
		defer b.mirror.Await()()
	}
	cl, event, err := b.watch(ctx, refTo(in.ID, in.Agent), in.After, wait)
	if err != nil {
		return api.Claim{}, err
	}
	out := b.claim(cl)
	if event != nil {
		out.Event = new(b.event(*event))
	}
	return out, nil
}

func (b *Broker) watch(ctx context.Context, r ref, after int64, wait time.Duration) (claim.Hold, *claim.Fact, error) {
	if after == api.EventsFuture {
		var err error
		if after, _, err = b.feed.FeedBounds(ctx); err != nil {
			return claim.Hold{}, nil, err
		}
	}
	cl, err := b.lookup(ctx, r)
	if err != nil {
		return claim.Hold{}, nil, err
	}
	var event *claim.Fact
	err = b.await(ctx, wait, func() (done bool, err error) {
		// A copy of the task's page shows the claim too, but is another task.
		news, err := b.feed.Feed(ctx, claim.FactFilter{Told: after, Task: cl.Task.ID})
		if err != nil {
			return false, err
		}
		if cl, err = b.claimer.Find(ctx, cl.ID); err != nil {
			return false, err
		}
		if cl.State == claim.Ended {
			event, err = b.lastOf(ctx, cl)
			return true, err
		}
		if i := slices.IndexFunc(news, func(e claim.Fact) bool { return e.Claim == cl.ID && e.Kind != claim.KindClaimed }); i >= 0 {
			event = &news[i]
		}
		return event != nil, nil
	})
	if err == nil {
		b.notifiedByAnswer(ctx, r.agent, cl)
	}
	return cl, event, err
}

// lastOf returns the event that best explains how a claim ended: the protocol's own, or else the
// claim's last event. It is nil if neither is kept any longer.
func (b *Broker) lastOf(ctx context.Context, cl claim.Hold) (*claim.Fact, error) {
	events, err := b.feed.Feed(ctx, claim.FactFilter{Task: cl.Task.ID})
	var end *claim.Fact
	for i, e := range events {
		explained := end != nil && (end.Kind == claim.KindLost || end.Kind == claim.KindSwept || end.Kind == claim.KindOverridden)
		if e.Claim == cl.ID && e.Kind != claim.KindClaimed && !explained {
			end = &events[i]
		}
	}
	return end, err
}
