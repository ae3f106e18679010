package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
)

// recheck is how often a waiting request looks again even if nothing seems to have
// changed: a lease may have run out.
const recheck = 15 * time.Second

// soon is how often it does so at first when Notion fails without being known to be down;
// the time doubles up to recheck.
const soon = 3 * time.Second

// Claim gets the agent a task: the one it names, or the first ready one. The error is a
// *claim.Denied if it did not get one in the time it was ready to wait.
func (b *Broker) Claim(ctx context.Context, r Request) (claim.Claim, error) {
	if most := b.claimer.Policy().MaxLifetime; most > 0 && r.Timeout > most {
		return claim.Claim{}, &InvalidError{Detail: fmt.Sprintf("a lease of %v: a claim lives at most %v (claim.max_lifetime)", r.Timeout, most)}
	}
	deadline := time.Now().Add(r.Wait)
	failed := 0
	for first := true; ; first = false {
		changed, back := b.changed.next(), b.back()
		cl, err := b.try(ctx, r, first)
		var denied *claim.Denied
		if !errors.As(err, &denied) || !passing(denied, r.Task == "") {
			return cl, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return cl, err
		}
		pause := max(recheck, denied.RetryAfter)
		if denied.Code == claim.CodeNotionUnavailable && !denied.Page && denied.Task.ID != "" {
			changed = nil // nothing that happens here brings Notion back
			if denied.RetryAfter == 0 {
				pause = min(recheck, soon<<min(failed, 10))
				failed++
			}
		}
		pause = min(left, pause)
		select {
		case <-changed:
		case <-back:
		case <-time.After(pause):
		case <-b.closed:
			return cl, err
		case <-ctx.Done():
			return claim.Claim{}, context.Cause(ctx)
		}
	}
}

// passing reports whether a denial may be over soon, so that waiting makes sense.
func passing(d *claim.Denied, next bool) bool {
	switch d.Code {
	case claim.CodeNotFound, claim.CodeLimitReached:
		return false
	case claim.CodeNotionRefused:
		return next && d.Page // another task may come
	case claim.CodeNotOpen:
		return !d.Task.Status.Finished() && !d.Task.Trashed
	}
	return true
}

// try makes one attempt at what r asks for. If it is not the first and r names a task, it
// does so only when nobody here has the task and the mirror shows that it can be claimed:
// waiting costs no requests and leaves no trace.
func (b *Broker) try(ctx context.Context, r Request, first bool) (claim.Claim, error) {
	if r.Task == "" {
		return b.next(ctx, r)
	}
	bd := b.present()
	t, known := bd.Task(r.Task)
	if c, taken := bd.occupied(r.Task); taken && !first {
		return claim.Claim{}, claim.Occupied(c)
	}
	if !known {
		t = task.Task{ID: r.Task}
	} else if d := claim.Decide(t, r.Agent, bd.waitsFor(t), bd.now, bd.policy); d.Code != "" && !first {
		return claim.Claim{}, bd.named(d.Deny(t))
	}
	cl, err := b.attempt(ctx, r, t)
	if denied, ok := errors.AsType[*claim.Denied](err); ok {
		err = b.present().named(denied)
	}
	return cl, err
}

// next goes down the ready tasks until a claim is granted. A task whose page cannot be
// read or written is passed over, then and for a while. Tasks that turn out to be held
// by others are recorded in one event.
func (b *Broker) next(ctx context.Context, r Request) (claim.Claim, error) {
	tried := make(map[task.ID]bool)
	var troubled *claim.Denied
	var held []*claim.Denied
	first := claim.NewID(b.now())
	defer func() {
		if len(held) == 0 {
			return
		}
		if err := b.journal.Record(context.WithoutCancel(ctx), claim.PassedOver(r.Agent, first, b.now(), held)); err != nil {
			b.log.Error("what was passed over could not be journalled", "agent", r.Agent, "error", err)
		}
	}()
	b.others.catchUp(ctx, b.mirror)
	for failures := 0; ; {
		t, done, passed := b.pick(r.Agent, tried)
		if done == nil {
			return claim.Claim{}, b.nothing(troubled, passed)
		}
		cl, err := b.attempt(ctx, r, t)
		done()
		var denied *claim.Denied
		if !errors.As(err, &denied) {
			return cl, err
		}
		switch denied.Code {
		case claim.CodeLimitReached:
			return cl, err
		case claim.CodeNotionUnavailable, claim.CodeNotionRefused:
			if failures++; !denied.Page || failures == maxTroubled || ctx.Err() != nil {
				return cl, err
			}
			b.troubles.meet(t, cmp.Or(denied.Err, err))
			troubled = denied
		case claim.CodeHeld, claim.CodeLostRace:
			if !denied.Local {
				if denied.Code == claim.CodeHeld {
					held = append(held, denied)
				}
				b.others.meet()
				b.others.catchUp(ctx, b.mirror)
			}
		}
	}
}

// nothing denies the next task because none is left to be tried. troubled is the denial
// of a task that was ready but could not be had, if there was one, and passed says that
// another one was passed over.
func (b *Broker) nothing(troubled *claim.Denied, passed bool) *claim.Denied {
	if troubled != nil {
		return troubled
	}
	if s := b.mirror.Standing(); s.Stale {
		return nothingKnown(s)
	}
	if passed {
		return &claim.Denied{
			Code: claim.CodeNotionUnavailable, RetryAfter: firstPass, Page: true,
			Detail: "the tasks that are ready cannot be read or written in Notion at present, see `dibs status`; try again later",
		}
	}
	return &claim.Denied{
		Code:   claim.CodeNothingReady,
		Detail: "no task is ready: all are held, assigned to others, blocked or finished; try again later, or wait for one",
	}
}

// nothingKnown denies the next task because the mirror has none that is ready, and is
// out of date: there may be one in Notion.
func nothingKnown(s mirror.Standing) *claim.Denied {
	d := &claim.Denied{
		Code: claim.CodeNotionUnavailable, RetryAfter: recheck,
		Detail: "the board is being read for the first time, see `dibs status`; try again later, or wait for a task",
	}
	if !s.SyncedAt.IsZero() {
		d.Detail = fmt.Sprintf("no task was ready when Notion was last heard of, %s ago; try again later, or wait for a task", s.Old.Round(time.Second))
	}
	return d
}

// pick chooses the first task ready for the agent that was not tried and that no other
// request has picked, so that agents of one daemon do not get into each other's way.
// Those assigned to the agent come first. While other daemons are at work, it chooses
// among the others the one that they are least likely to choose, too. done gives up
// the choice, and must be called; it is nil if there is no such task. passed says that
// one was passed over because of its page.
func (b *Broker) pick(agent string, tried map[task.ID]bool) (t task.Task, done func(), passed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bd := b.present()
	free := func(tasks iter.Seq[task.Task]) iter.Seq[task.Task] {
		return func(yield func(task.Task) bool) {
			for t := range tasks {
				if tried[t.ID] || b.picked[t.ID] || !bd.ready(t, agent) {
					continue
				}
				if b.troubles.passed(t.ID) {
					passed = true
				} else if !yield(t) {
					return
				}
			}
		}
	}
	t, ok := first(free(b.ready.Assigned(agent)))
	if !ok {
		t, ok = b.others.choose(free(b.ready.Tasks()))
	}
	if !ok {
		return task.Task{}, nil, passed
	}
	tried[t.ID], b.picked[t.ID] = true, true
	return t, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.picked, t.ID)
	}, passed
}

// first returns the first of the tasks; false if there is none.
func first(tasks iter.Seq[task.Task]) (task.Task, bool) {
	for t := range tasks {
		return t, true
	}
	return task.Task{}, false
}

// claimTries is how many attempts are made for one request if the writes of the first
// ones do not arrive: each is a new one, with an id and a stopwatch of its own.
const claimTries = 3

// attempt runs the protocol, and again if the claim write did not arrive.
func (b *Broker) attempt(ctx context.Context, r Request, t task.Task) (claim.Claim, error) {
	for try := 1; ; try++ {
		cl, err := b.attemptOnce(ctx, r, t)
		var denied *claim.Denied
		if !errors.As(err, &denied) || !denied.Unseen || try == claimTries || ctx.Err() != nil {
			return cl, err
		}
	}
}

func (b *Broker) attemptOnce(ctx context.Context, r Request, t task.Task) (claim.Claim, error) {
	id := claim.NewID(b.now())
	if r.Key != "" {
		// If the daemon is killed before it answers, a retry of the request finds the
		// claim by this.
		if err := b.journal.BindRequest(ctx, r.UID, r.Key, id); err != nil {
			return claim.Claim{}, err
		}
	}
	kept := r.Keeper.Process.ID != 0
	if kept {
		// Before the attempt, so that no crash leaves a claim that nobody looks after.
		if err := b.alive.Keep(ctx, id, r.Keeper); err != nil {
			return claim.Claim{}, err
		}
	}
	cl, err := b.claimer.Claim(ctx, claim.Request{ID: id, Agent: r.Agent, Task: t, Timeout: r.Timeout, Limit: new(b.limit(r.Agent, b.claimer.Policy())), Keep: r.Key != "", Quiet: r.Task == ""})
	if kept && err == nil {
		b.alive.Granted(id)
	} else if kept {
		if ferr := b.alive.Forget(context.WithoutCancel(ctx), id); ferr != nil {
			b.log.Error("who was to keep a claim alive could not be forgotten", "claim", id, "error", ferr)
		}
	}
	var denied *claim.Denied
	if !errors.As(err, &denied) || !denied.Local && !denied.Page { // else it would wake who asked
		b.Changed()
	}
	if denied == nil && err == nil || denied != nil && denied.Holder != "" && !denied.Local {
		b.troubles.works(t.ID)
	}
	return cl, err
}

// Renew notes that the claim's agent is alive. See claim.Claimer.Renew. While Notion cannot
// be reached and the lease has not ended, the error is an *OwedError: the renewal is
// written when Notion is back, and if that is too late, the lease ends when it would have.
func (b *Broker) Renew(ctx context.Context, r Ref) (claim.Claim, error) {
	cl, err := b.Lookup(ctx, r)
	if err != nil {
		return claim.Claim{}, err
	}
	renewed, err := b.claimer.Renew(ctx, cl.ID)
	b.tell(ctx, err)
	var failed *claim.StoreError
	if errors.As(err, &failed) && failed.Kind == claim.Unavailable {
		held, herr := b.claimer.Find(ctx, cl.ID)
		if herr == nil && held.State == claim.Held && b.now().Before(held.ExpiresAt()) {
			return claim.Claim{}, &OwedError{held, err}
		}
	}
	return renewed, err
}

// Finish ends a claim the way its agent says, and, if it says why it could not go on, owes
// the task a comment where those are made. f.Mention is whom the comment is to mention, a
// Notion user by name, e-mail address or id; the error is an *InvalidError, and nothing was
// done, if it is not clear who that is. See also claim.Claimer.Finish.
func (b *Broker) Finish(ctx context.Context, r Ref, f claim.Finish) (claim.Claim, error) {
	cl, err := b.Lookup(ctx, r)
	if err != nil {
		return claim.Claim{}, err
	}
	if f, err = b.comment(ctx, f); err != nil {
		return claim.Claim{}, err
	}
	if said := cl.Finish; f.Ask && cl.State != claim.Held && said != nil && said.As == f.As && (!said.Ask || said.Summary != f.Summary) {
		return claim.Claim{}, &claim.Lost{Claim: cl, Detail: "it is blocked already: say more with dibs comment"}
	}
	cl, err = b.claimer.Finish(ctx, cl.ID, f)
	if errors.Is(err, claim.ErrNoReview) {
		return cl, &InvalidError{err.Error()}
	}
	b.tell(ctx, err)
	b.Changed()
	return cl, err
}

// Lookup finds the claim that r means. A task id means the claim that has the task now,
// or, if none has or the last one of r.Agent was taken from it, the last one on it, of r.Agent
// if that is given. The error is claim.ErrUnknownClaim,
// an *AmbiguousError, an *InvalidError, or a *claim.Lost if the claim is
// another agent's.
func (b *Broker) Lookup(ctx context.Context, r Ref) (claim.Claim, error) {
	cl, err := b.find(ctx, r)
	if err != nil {
		return claim.Claim{}, err
	}
	if r.Agent != "" && cl.Agent != r.Agent {
		return claim.Claim{}, &claim.Lost{Claim: cl, Asked: r.Agent, Holder: cl.Agent, Detail: cl.Agent + " has it"}
	}
	return cl, nil
}

func (b *Broker) find(ctx context.Context, r Ref) (claim.Claim, error) {
	if r.Claim == "" {
		return b.only(ctx, r.Agent)
	}
	if id, ok := claim.ParseID(r.Claim); ok {
		return b.claimer.Find(ctx, id)
	}
	id, err := task.ParseID(r.Claim)
	if err != nil {
		return claim.Claim{}, &InvalidError{Detail: fmt.Sprintf("%q is neither the id of a claim nor of a task", r.Claim)}
	}
	owns := func(c claim.Claim) bool { return c.State == claim.Held || c.State == claim.Finishing }
	meant := func(c claim.Claim) bool { return r.Agent == "" || c.Agent == r.Agent }
	holder, taken := b.claimer.On(id)
	if taken = taken && owns(holder); taken && meant(holder) {
		return holder, nil
	}
	claims, err := b.journal.TaskClaims(ctx, id)
	if err != nil {
		return claim.Claim{}, err
	}
	if i := slices.IndexFunc(claims, owns); !taken && i >= 0 { // one that is being taken over, too
		holder, taken = claims[i], true
	}
	if taken && !meant(holder) {
		if lost, ok := takenFrom(r.Agent, claims); ok {
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
	return claim.Claim{}, &noClaimError{t, r.Agent}
}

// noClaimError says that there is no claim on a task: none of the agent's, if there is one.
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
