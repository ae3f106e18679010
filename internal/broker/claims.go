package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// recheck is how often a waiting request tries again although nothing seems to have changed: a
// lease may have ended.
const recheck = 15 * time.Second

// soon is the first pause before a retry when Notion fails without being known to be down; it
// doubles up to recheck.
const soon = 3 * time.Second

// Claim gets the agent a task: the named one, or the first ready one that the filter selects. If it
// gets none within the wait, the error is a *claim.Denied, inside a *NothingError if no task was
// ready. It is an *InvalidError if the filter cannot be used.
func (b *Broker) Claim(ctx context.Context, who Caller, in *api.KeyedInput[api.ClaimRequest]) (api.Claim, error) {
	body := in.Body
	r := request{
		Caller: who, agent: body.Agent, task: task.ID(body.Task),
		timeout: time.Duration(body.TimeoutMinutes) * time.Minute, wait: seconds(body.WaitSeconds),
	}
	if !body.Filter.Empty() && body.Task != "" {
		return api.Claim{}, api.Invalid("body.task", errors.New("a filter (priority, where, text) goes with the next ready task, not with one that is named: leave one of them out"))
	}
	if len(body.Except) > 0 && body.Task != "" {
		return api.Claim{}, api.Invalid("body.except", errors.New("it goes with the next ready task, not with one that is named: leave one of them out"))
	}
	for i, s := range body.Except {
		id, err := task.ParseID(s)
		if err != nil {
			return api.Claim{}, api.Invalid(fmt.Sprintf("body.except[%d]", i), err)
		}
		r.except = append(r.except, id)
	}
	var err error
	if r.keeper, err = who.keeper(body.Keeper); err != nil {
		return api.Claim{}, err
	}
	return b.grant(ctx, r, body.Filter)
}

// Accept claims a task that is offered to the agent. It fails as Claim does.
func (b *Broker) Accept(ctx context.Context, who Caller, in *api.TaskInput[api.AcceptRequest]) (api.Claim, error) {
	return b.grant(ctx, request{
		Caller: who, agent: in.Body.Agent, task: task.ID(in.ID), timeout: time.Duration(in.Body.TimeoutMinutes) * time.Minute, note: in.Body.Note,
	}, api.Filter{})
}

// grant gets the claim that r asks for, and tells the house how that ended.
func (b *Broker) grant(ctx context.Context, r request, of api.Filter) (out api.Claim, err error) {
	if b.house != nil {
		began := time.Now()
		defer func() { b.house.Claimed(r.agent, err, time.Since(began)) }()
	}
	f, err := b.filter(of)
	if err != nil {
		return api.Claim{}, err
	}
	cl, err := b.get(ctx, r, f)
	if out, err = b.answer(cl, b.summed(ctx, err, r.agent, f)); err == nil {
		b.AddAttempts(ctx, &out)
	}
	return out, err
}

// get is Claim without the summary of a denial.
func (b *Broker) get(ctx context.Context, r request, f task.Filter) (claim.Hold, error) {
	if most := b.claimer.Policy().MaxLifetime; most > 0 && r.timeout > most {
		return claim.Hold{}, &InvalidError{Detail: fmt.Sprintf("to be kept for %v: a claim lives at most %v (claim.max_lifetime)", r.timeout, most)}
	}
	deadline := time.Now().Add(r.wait)
	var fresh *waiter // set for requests that wait for certain tasks only
	if r.task == "" && !f.Empty() && r.wait > 0 {
		fresh = b.waiters.add(r.agent, f)
		defer b.waiters.remove(fresh)
	}
	b.mirror.Use(ctx)
	if r.wait > 0 {
		defer b.mirror.Await()()
	}
	failed, paused := 0, false
	for first := true; ; first = false {
		changed, eased, back := b.changed.next(), b.eased.next(), b.back()
		if fresh != nil {
			changed = fresh.begin()
		}
		cl, err := b.tryUnpaused(ctx, r, f, first, paused)
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if !isDenied || !passing(denied, r.task == "") {
			return cl, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return cl, err
		}
		pause := max(recheck, denied.RetryAfter)
		if denied.Code == claim.CodeNotionUnavailable && !denied.Reach.IsPage() && denied.Task.ID != "" {
			changed = nil // no local change brings Notion back
			if denied.RetryAfter == 0 {
				pause = min(recheck, soon<<min(failed, 10))
				failed++
			}
		}
		if paused = denied.Code == claim.CodePaused; paused {
			pause = b.until(denied.ExpiresAt, pause)
			changed = nil
		} else {
			eased = nil
		}
		pause = min(left, pause)
		select {
		case <-changed:
		case <-eased:
		case <-back:
		case <-time.After(pause):
		case <-b.closed:
			return claim.Hold{}, ErrStopping
		case <-ctx.Done():
			return claim.Hold{}, context.Cause(ctx)
		}
	}
}

// passing reports whether waiting may overcome a denial. next says that any ready task will do.
func passing(d *claim.Denied, next bool) bool {
	switch d.Code {
	case claim.CodeNotFound, claim.CodeLimitReached:
		return false
	case claim.CodeNotionRefused:
		return next && d.Reach.IsPage() // another task may do
	case claim.CodeNotOpen:
		return !d.Task.Status.Finished() && !d.Task.Trashed
	}
	return true
}

// try makes one attempt for r. After the first one it attempts a named task only if nobody here has
// it and the mirror shows that it can be claimed: waiting costs no requests and leaves no trace.
func (b *Broker) try(ctx context.Context, r request, f task.Filter, first bool) (claim.Hold, error) {
	if r.task == "" {
		return b.next(ctx, r, f)
	}
	bd := b.present()
	t, known := bd.Task(r.task)
	if c, taken := bd.occupied(r.task); taken && !first {
		return claim.Hold{}, claim.Occupied(c)
	}
	if !known {
		t = task.Task{ID: r.task}
	} else if d := claim.Decide(t, r.agent, bd.waitsFor(t), bd.now, bd.policy); d.Code != "" && !first {
		return claim.Hold{}, bd.named(d.Deny(t))
	}
	return b.attempt(ctx, r, t, nil)
}

// claimTries is how many attempts one request gets if the claim write does not arrive. Each has its
// own id and its own stopwatch.
const claimTries = 3

// attempt runs the protocol, and repeats it while the claim write does not arrive.
func (b *Broker) attempt(ctx context.Context, r request, t task.Task, unwanted func(task.Task) string) (claim.Hold, error) {
	for try := 1; ; try++ {
		cl, err := b.attemptOnce(ctx, r, t, unwanted)
		denied, isDenied := errors.AsType[*claim.Denied](err)
		if !isDenied || denied.Reach != claim.ReachUnseen || try == claimTries || ctx.Err() != nil {
			return cl, err
		}
	}
}

func (b *Broker) attemptOnce(ctx context.Context, r request, t task.Task, unwanted func(task.Task) string) (claim.Hold, error) {
	id := b.claimer.NewID()
	if r.Key != "" {
		// A retry of the request finds the claim by this if the daemon is killed before it answers.
		if err := b.journal.BindRequest(ctx, r.UID, r.Key, id); err != nil {
			return claim.Hold{}, err
		}
	}
	kept := r.keeper.Process.ID != 0
	if kept {
		// Before the attempt, so that a crash leaves no claim without its keeper.
		if err := b.alive.Keep(ctx, id, r.keeper); err != nil {
			return claim.Hold{}, err
		}
	}
	var offered inbox.Offer
	if claim.AssignedAgent(t) == r.agent {
		if o, err := b.offerOf(ctx, t.ID); err == nil && o.To == r.agent {
			offered = o
		}
	}
	cl, err := b.claimer.Claim(ctx, claim.Request{ID: id, Agent: r.agent, From: offered.From, Until: offered.Until, Task: t, Timeout: r.timeout, Limit: new(b.limit(r.agent, b.claimer.Policy())), Keep: api.Outlives(r.Key), Quiet: r.task == "", Unwanted: unwanted, Explain: func(d *claim.Denied) *claim.Denied { return b.present().named(d) }, Note: r.note})
	if kept && err == nil {
		b.alive.Granted(id)
	} else if kept {
		if ferr := b.alive.Forget(context.WithoutCancel(ctx), id); ferr != nil {
			b.log.Error("could not forget the keeper of a claim that was not granted", claim.AttrClaim, id, claim.AttrError, ferr)
		}
	}
	denied, isDenied := errors.AsType[*claim.Denied](err)
	if !isDenied || !denied.Reach.IsLocal() && !denied.Reach.IsPage() { // else the caller would wake itself
		b.Changed()
		b.ready.Claimed(t.ID)
	}
	if denied == nil && err == nil || denied != nil && denied.Holder != "" && !denied.Reach.IsLocal() {
		b.troubles.works(t.ID)
	}
	return cl, err
}

// Renew records that the claim's agent is alive, see claim.Claimer.Renew, and binds the claim to a
// process of the caller's, if it names one. While Notion cannot be reached and the lease has not
// ended, the renewal is pending: it is written when Notion is back. If that is too late, the lease
// ends as if it had not been renewed. The error is a *claim.Lost, a *claim.StoreError, or one of
// GetClaim's.
func (b *Broker) Renew(ctx context.Context, who Caller, in *api.ClaimInput[api.RenewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	r := refTo(in.ID, body.Agent)
	said := claim.Report{Progress: body.Progress}
	k, err := who.keeper(body.Keeper)
	switch {
	case err != nil:
		return api.Claim{}, err
	case body.Orphaned && body.PID == 0:
		return api.Claim{}, api.Invalid("body.orphaned", errors.New("who is to take the claim over? name a process in pid"))
	case body.Orphaned:
		return b.answer(b.adopt(ctx, r, said, k))
	case body.PID != 0:
		return b.answer(b.keep(ctx, r, said, k))
	}
	return b.answer(b.renew(ctx, r, said))
}

// renew is Renew, but its error is an *owedError while the renewal is pending.
func (b *Broker) renew(ctx context.Context, r ref, said claim.Report) (claim.Hold, error) {
	cl, err := b.lookup(ctx, r)
	if err != nil {
		return claim.Hold{}, err
	}
	renewed, err := b.claimer.Report(ctx, cl.ID, said)
	b.notifiedByError(ctx, err)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.Unavailable {
		held, herr := b.claimer.Find(ctx, cl.ID)
		if herr == nil && held.State == claim.Held && b.now().Before(held.ExpiresAt()) {
			return claim.Hold{}, &owedError{held, err}
		}
	}
	return renewed, err
}

// Complete ends a claim whose work is done. Like the other ways in which an agent ends a claim, it
// fails as GetClaim does, or with a *claim.Lost. A claim returned in state claim.Finishing is still
// owed to Notion. The error is a *NotDoneError, or a *claim.StoreError, if claim.Policy.Todos keeps the
// task from being completed.
func (b *Broker) Complete(ctx context.Context, _ Caller, in *api.ClaimInput[api.CompleteRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndCompleted, Summary: body.Summary, Evidence: evidence(body.Evidence)})
}

// maxEvidence limits the characters of one piece of evidence.
const maxEvidence = 500

// evidence folds each piece of evidence into a line, and leaves out the empty ones.
func evidence(pieces []string) (lines []string) {
	for _, piece := range pieces {
		if line := task.Brief(piece, maxEvidence); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Review ends a claim whose work is done, for a person to decide.
func (b *Broker) Review(ctx context.Context, _ Caller, in *api.ClaimInput[api.ReviewRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndReview, Summary: body.Note, Mention: body.Mention})
}

// Release gives the task back, or takes it back from its agent. It fails also as AuthorizeSigner does.
func (b *Broker) Release(ctx context.Context, who Caller, in *api.ClaimInput[api.StopRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	f := claim.Finish{As: claim.EndReleased, Summary: body.Reason, Unheard: body.Unheard}
	if body.By != "" {
		if err := b.AuthorizeSigner(body.By, who); err != nil {
			return api.Claim{}, err
		}
		f.By, f.User = body.By, who.User
	}
	return b.end(ctx, refTo(in.ID, body.Agent), f)
}

// Block ends a claim whose work cannot go on.
func (b *Broker) Block(ctx context.Context, _ Caller, in *api.ClaimInput[api.BlockRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndBlocked, Summary: body.Reason, Mention: body.Mention})
}

// Fail ends a claim whose work failed.
func (b *Broker) Fail(ctx context.Context, _ Caller, in *api.ClaimInput[api.FailRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndFailed, Summary: body.Reason, Reopen: body.Reopen, Mention: body.Mention})
}

// Ask ends a claim with a question to people: the task is blocked until they answer.
func (b *Broker) Ask(ctx context.Context, _ Caller, in *api.ClaimInput[api.AskRequest]) (api.Claim, error) {
	body := orZero(in.Body)
	return b.end(ctx, refTo(in.ID, body.Agent), claim.Finish{As: claim.EndBlocked, Summary: body.Text, Mention: body.To, Ask: true})
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
	if said := cl.Finish; f.Ask && cl.State != claim.Held && said != nil && said.As == f.As && (!said.Ask || said.Summary != f.Summary) {
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

// GetClaim finds a claim, and waits for something to happen to it, if the request says so, see Watch.
func (b *Broker) GetClaim(ctx context.Context, _ Caller, in *api.GetClaimInput) (c api.Claim, err error) {
	if in.Wait == "" {
		c, err = b.Lookup(ctx, in.ID, in.Agent)
	} else {
		c, err = b.Watch(ctx, in)
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
