package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// Request asks for one task.
type Request struct {
	// ID is the claim's id; empty to have one minted.
	ID    ID
	Agent string
	// Task is the task wanted. Only its ID is required.
	Task task.Task
	// Timeout is how long to keep the claim without hearing from the agent; zero for the lease.
	Timeout time.Duration
	// Keep keeps a granted claim even if the caller went away before the answer, because a
	// retry of its request can still ask for it.
	Keep bool
	// Quiet leaves the record to the caller if the attempt finds the task held by somebody
	// else, or not open any more. See PassedOver.
	Quiet bool
	// Unwanted, if set, returns in one line why the agent does not want the task that the page
	// shows; empty if it does. An unwanted task is neither written to nor recorded.
	Unwanted func(task.Task) string
	// Explain, if set, words a denial by what the page shows, before it is recorded: the caller may
	// know more of the tasks that this one waits for.
	Explain func(*Denied) *Denied
	// Repository and Member say where the work is, see Hold.
	Repository, Member string
	// Admit, if set, decides last, by the page as it was just read, whether the agent may have the
	// task; nil admits it.
	Admit func(Hold) *Denied
	// Limit is the most tasks that the agent may have at a time, 0 for any number; nil means
	// Policy.MaxPerAgent.
	Limit *int
	// Brief is set for a task that is claimed only to be given up at once, so that its page can
	// be written. That is no grant of work: no limit and no pause is for it.
	Brief bool
	// From is the agent that offered the task to Agent, until Until; empty if none did.
	From  string
	Until time.Time
	// Note goes on record if the claim is granted: who asked on behalf of the agent, for
	// example.
	Note string
}

// maxStarts is how often an attempt may begin at the pre-flight. It starts over if the read
// used up the write window, or if the write was turned away unsent.
const maxStarts = 5

// attempt is one run of the protocol, from the reservation to a verdict.
type attempt struct {
	*Claimer
	cl       Hold
	keep     bool
	quiet    bool
	unwanted func(task.Task) string
	explain  func(*Denied) *Denied
	admit    func(Hold) *Denied
	from     string // who offered it
	until    time.Time
	note     string
	stale    bool // the overridden claim counts as a try of its agent, see Try
}

// Claim makes one attempt to get the task for the agent. The attempt becomes one fact, whatever
// its outcome. The error is a *Denied unless the ledger failed. A granted claim takes at least
// Policy.Settle. If ctx ends after the claim was written, the attempt is finished all the same,
// and a granted claim is given back unless r.Keep is set.
func (c *Claimer) Claim(ctx context.Context, r Request) (Hold, error) {
	now := c.store.Now()
	cl := Hold{
		ID: cmp.Or(r.ID, c.NewID()), Agent: r.Agent, Task: r.Task, State: Reserved, Brief: r.Brief, Repository: r.Repository, Member: r.Member,
		Reserved: now, Lease: Lease{Requested: r.Timeout, Timeout: c.policy.LeaseOf(r.Task)},
	}
	c.underway.Store(cl.ID, nil)
	defer c.underway.Delete(cl.ID)
	limit := c.policy.MaxPerAgent
	switch {
	case r.Brief:
		limit = 0
	case r.Limit != nil:
		limit = *r.Limit
	}
	if why, ok := errors.AsType[*JournalError](c.board.Closed()); ok { // whatever the task
		return Hold{}, why
	}
	fence, refusal, err := c.ledger.Reserve(ctx, cl, now, limit)
	if denied, ok := errors.AsType[*Denied](err); ok {
		return Hold{}, denied
	}
	if err != nil {
		return Hold{}, fmt.Errorf("task %s: could not be reserved: %w", cl.Task.ID, err)
	}
	if refusal != nil {
		return Hold{}, refusal.deny(cl, limit, c.Claims(cl.Agent))
	}
	cl.Fence = fence
	c.keep(holding(cl))
	a := &attempt{Claimer: c, cl: cl, keep: r.Keep, quiet: r.Quiet, unwanted: r.Unwanted, explain: r.Explain, admit: r.Admit, from: r.From, until: r.Until, note: r.Note}
	unlock, err := c.locks.Lock(ctx, cl.Task.ID)
	if err != nil {
		return a.deny(ctx, Denied{Code: CodeNotionUnavailable, Detail: "gave up waiting for its turn on the task; try again", Err: err}, false)
	}
	defer unlock()

	for range maxStarts {
		if cl, err := a.once(ctx); !isNotYet(err) {
			return cl, err
		}
	}
	return a.deny(ctx, Denied{
		Code: CodeNotionUnavailable, RetryAfter: c.policy.WriteWindow, Reach: ReachPage,
		Detail: fmt.Sprintf("Notion answered too slowly or turned the write away %d times (claim.write_window is %v); try again later", maxStarts, c.policy.WriteWindow),
	}, true)
}

// once runs the protocol from the pre-flight on. It returns a notYet if nothing was written and it
// should start over.
func (a *attempt) once(ctx context.Context) (Hold, error) {
	if err := a.board.Closed(); err != nil {
		return a.deny(ctx, unavailable(err), false)
	}
	v, err := a.visit(ctx, a.cl.Task.ID, gatePatience)
	switch {
	case errors.Is(err, errCrowded):
		return a.deny(ctx, Denied{
			Code: CodeNotionUnavailable, RetryAfter: gatePatience / 2, Err: err,
			Detail: err.Error() + ": ask again later, or wait for a task",
		}, false)
	case err != nil:
		d := ofPage(err)
		if !Asked(err) {
			d.Reach = ReachDecided
		}
		return a.deny(ctx, d, d.Reach.IsPage() && d.Code != CodeNotionUnavailable)
	}
	defer v.Close()
	a.cl.Task = v.Task
	if err := a.board.Closed(); err != nil { // what the page shows may be why
		return a.deny(ctx, unavailable(err), false)
	}
	known := a.board.Knows(v.Task)
	if !known {
		v.Close()
	}
	blockers, err := a.board.Blockers(ctx, v.Task)
	if err != nil {
		return a.deny(ctx, ofPage(err), true)
	}
	d, unwanted := a.policy.decide(v.Reading, a.cl.Agent, blockers).wanted(v.Task, a.unwanted)
	if under, left := a.landing(v.Task); d.Code == "" && left > 0 {
		d = Decision{
			Code: CodeHeld, Holder: under.Agent, LeaseEnd: a.store.Now().Add(left),
			Reason: fmt.Sprintf("Notion never answered a write that opens it, which may still take effect in the next %v", left.Round(time.Second)),
		}
	}
	if taken := a.quiet && (d.Code == CodeHeld || d.Code == CodeNotOpen); taken || unwanted {
		denied := d.Deny(v.Task)
		if !unwanted {
			denied.Reach = ReachUnrecorded
		}
		if _, err := a.end(ctx, a.cl, EndNotGranted, denied.Detail); err != nil {
			return Hold{}, err
		}
		return Hold{}, denied
	} else if d.Code != "" {
		denied := d.Deny(v.Task)
		if a.explain != nil {
			denied = a.explain(denied)
		}
		return a.deny(ctx, *denied, true)
	}
	if !known {
		return Hold{}, notYet{} // the page may show something else by now
	}
	if a.admit != nil {
		a.cl.Touches = v.Task.Touches
		if denied := a.admit(a.cl); denied != nil && a.quiet {
			_, err := a.end(ctx, a.cl, EndNotGranted, denied.Detail)
			return Hold{}, cmp.Or(err, error(denied))
		} else if denied != nil {
			return a.deny(ctx, *denied, true)
		}
	}
	if v.Unsure {
		return a.deny(ctx, Denied{Code: CodeNotionUnavailable, Err: errUntimed, Detail: errUntimed.Error() + "; try again"}, true)
	}
	a.cl.Former, a.cl.Assigned = "", v.Task.ClaimedBy == a.cl.Agent && unbegun(v.Task) == a.cl.Agent
	if d.Override {
		a.cl.Former = d.Holder
	}
	if a.stale = d.Override && v.Task.Status == task.InProgress; a.stale {
		history, err := a.exhausted(ctx, v.Task.ID, a.staleTry(v.Task))
		if err != nil {
			return Hold{}, err
		}
		if history != "" {
			return a.setAside(ctx, v, history)
		}
	}

	a.cl.State, a.cl.ClaimedAt = Writing, a.store.Now()
	a.cl.Heartbeat = a.cl.ClaimedAt
	if err := v.commit(ctx, holding(a.cl)); err != nil {
		return Hold{}, err
	}
	if ctx.Err() != nil {
		return Hold{}, notYet{}
	}
	work, cancel := a.detached(ctx)
	defer cancel()
	answer, f, err := v.compete(claimWrite(a.cl))
	if f != notLanded {
		shows := answer
		if f != confirmed { // somebody else may have edited it last
			shows = Reading{}
		}
		a.watcher.Wrote(v.took, shows, v.failure)
	}
	switch {
	case f == confirmed && a.unsettled():
		return a.judge(ctx, work, answer)
	case f == confirmed:
		return a.verify(ctx, work)
	case f == unknown:
		return a.enquire(ctx, work, v, fmt.Errorf("the claim write %w", err))
	case storeKind(err) == Unavailable:
		return Hold{}, notYet{}
	}
	return a.deny(ctx, ofPage(err), true)
}

// verify waits for the settle time after the claim was seen on the page, reads the page again,
// and grants or denies the claim.
func (a *attempt) verify(ctx, work context.Context) (Hold, error) {
	if err := clock.Pause(work, a.settle()); err != nil {
		return Hold{}, err
	}
	r, err := a.read(work, a.cl.Task.ID)
	if err != nil {
		return a.withdraw(ctx, work, fmt.Errorf("the claim was written but could not be verified, and is being withdrawn: %w", err))
	}
	return a.judge(ctx, work, r)
}

// judge grants the claim if the latest reading of the page shows all of it.
func (a *attempt) judge(ctx, work context.Context, r Reading) (Hold, error) {
	if s, holder, detail := a.policy.standing(a.cl, r.Task, r.judged(), nil); s != isMine {
		return a.overruled(ctx, work, r.Task, holder, detail)
	}
	a.cl = a.policy.refreshed(a.cl, r.Task)
	if !r.At.Before(a.cl.ExpiresAt()) {
		return a.withdraw(ctx, work, errors.New("the claim was verified only after its lease had ended, and is being withdrawn"))
	}
	started := r.At
	if r.Unsure { // the clock here may have jumped since the claim was written
		started = a.cl.ClaimedAt
	}
	return a.grant(ctx, work, started)
}

// overruled ends an attempt whose claim no longer stood at the verifying read. If the claim is
// still on the page, a person changed the task in between, and the claim is taken off. A
// trashed page cannot be written; it may come back with the claim on it, and the claim is
// withdrawn then.
func (a *attempt) overruled(ctx, work context.Context, t task.Task, holder, detail string) (Hold, error) {
	a.cl.Task = t
	switch tok := ParseToken(t.Token); {
	case tok.ID != a.cl.ID || tok.Void || tok.Done || t.ClaimedBy == "":
		return a.deny(ctx, a.lostRace(holder, detail), true)
	case t.Trashed:
		return a.abandon(ctx, work, Unseen, a.overruling(t))
	}
	return a.abandon(ctx, work, Clearing, a.overruling(t))
}

// overruling returns the denial of an attempt during which a person changed the task to t.
func (a *attempt) overruling(t task.Task) *Denied {
	d := &Denied{Code: CodeNotOpen}
	what := "its status was set to " + a.policy.word(t.Status)
	switch {
	case t.Trashed:
		what = "the task was moved to the trash"
	case Owner(t, a.cl.Agent) != "":
		d.Code, d.Holder, what = CodeReserved, t.Assignee, "it was assigned to "+t.Assignee
	case t.ClaimedBy != a.cl.Agent:
		d.Code, d.Holder, what = CodeReserved, t.ClaimedBy, "its claimed_by was set to "+t.ClaimedBy
	case t.Status == task.Open:
		d.Code = CodeLostRace
	}
	d.Detail = fmt.Sprintf("%q was not claimed: %s by a person meanwhile; ask for the next ready task instead", t.Title, what)
	return d
}

// grant makes the claim the agent's.
func (a *attempt) grant(ctx, work context.Context, at time.Time) (Hold, error) {
	a.cl.State, a.cl.Started = Held, at
	granted := a.cl.fact(KindGranted, a.store.Now())
	granted.Remote, granted.Detail = true, a.note
	granted.Assigned, granted.Expires = a.cl.Assigned, a.cl.ExpiresAt()
	if a.cl.Assigned && a.from != "" {
		granted.Kind, granted.Holder = KindAccepted, a.from
		a.cl.OfferedBy, a.cl.OfferedUntil = a.from, a.until
	}
	ch := holding(a.cl, granted)
	if a.cl.Former != "" {
		ch.Facts[0].Holder = a.cl.Former
		ch.Facts[0].Detail = fmt.Sprintf("overrides the stale claim of %s", a.cl.Former)
		if a.note != "" {
			ch.Facts[0].Detail += "; " + a.note
		}
		over := a.cl.fact(KindOverridden, a.store.Now())
		over.Holder, over.Remote = a.cl.Former, true
		if a.stale {
			over.Tried = TriedAgain
		}
		ch.Facts = append(ch.Facts, over)
		ch.Holds = append(ch.Holds, a.former()...)
	}
	if a.cl.Brief { // its end says what it was for
		ch.Facts = ch.Facts[1:]
	}
	if err := a.commit(ctx, ch); err != nil {
		return Hold{}, err
	}
	if ctx.Err() != nil && !a.keep {
		// Nobody hears the answer, and nobody would ever give the task back.
		_, err := a.finish(work, a.cl, Finish{As: EndReleased, Unheard: true, Summary: "the caller went away before the answer", At: a.store.Now()})
		return Hold{}, errors.Join(context.Cause(ctx), err)
	}
	return a.cl, nil
}

// former returns the overridden stale claims that were held here, as ended.
func (a *attempt) former() (ended []Hold) {
	for _, old := range a.book.on(a.cl.Task.ID) {
		if old.State == Held && old.ID != a.cl.ID {
			old.LostTo = a.cl.Agent
			ended = append(ended, old.ended(EndOverridden, a.store.Now(), fmt.Sprintf("its lease ran out and %s took the task over", a.cl.Agent)))
		}
	}
	return ended
}

// enquire finds out whether a claim write landed that was answered late or whose fate is
// unknown. It trusts the write only if it was on the page within the window.
func (a *attempt) enquire(ctx, work context.Context, v *visit, cause error) (Hold, error) {
	r, err := a.read(work, a.cl.Task.ID)
	if err == nil && !a.there(r) {
		if err := clock.Pause(work, a.settle()); err != nil {
			return Hold{}, err
		}
		r, err = a.read(work, a.cl.Task.ID)
	}
	switch {
	case err != nil:
		return a.withdraw(ctx, work, fmt.Errorf("the fate of the claim write is unknown, and Notion cannot be asked: %w", err))
	case a.there(r) && v.within(r):
		return a.verify(ctx, work)
	case a.there(r):
		return a.withdraw(ctx, work, fmt.Errorf("the claim write landed too late to be trusted, and is being withdrawn: %w", cause))
	}
	// The write may still arrive, whoever has the task by now.
	if d := a.policy.decide(r, a.cl.Agent, nil); d.Code == CodeHeld {
		a.cl.Task = r.Task
		return a.abandon(ctx, work, Unseen, new(a.lostRace(d.Holder, d.Reason)))
	}
	d := a.failed(cause)
	d.Reach = ReachUnseen
	return a.abandon(ctx, work, Unseen, d)
}

// there reports whether the page shows the claim.
func (a *attempt) there(r Reading) bool {
	s, _, _ := a.policy.standing(a.cl, r.Task, r.judged(), nil)
	return s == isMine
}

// lostRace returns the denial of an attempt that somebody else beat. a.cl.Task is the task as
// the last reading showed it.
func (a *attempt) lostRace(holder, detail string) Denied {
	d := Denied{
		Code: CodeLostRace, Holder: holder,
		Detail: fmt.Sprintf("lost the race for %q: %s; ask for the next ready task instead", a.cl.Task.Title, detail),
	}
	if holder != "" {
		d.ExpiresAt = a.policy.LeaseEnd(a.cl.Task)
	}
	return d
}

// withdraw gives up an attempt whose write is on the page, or may be.
func (a *attempt) withdraw(ctx, work context.Context, cause error) (Hold, error) {
	return a.abandon(ctx, work, Abandoned, a.failed(cause))
}

// abandon ends an attempt after its claim was written. Whatever is on the page, or may still
// get there, becomes a mark. abandon tries the mark's first step at once; if that fails, RunDue
// takes it later.
func (a *attempt) abandon(ctx, work context.Context, s MarkState, d *Denied) (Hold, error) {
	d.Task = a.cl.Task
	now := a.store.Now()
	m := a.cl.mark(s, now, d.Detail)
	if s == Unseen {
		m.Due = time.Time{}
	}
	ch := holding(a.cl.ended(EndNotGranted, now, d.Detail), a.denial(*d, true))
	ch.Marks = []Mark{m}
	if err := a.commit(ctx, ch); err != nil {
		return Hold{}, err
	}
	if s != Unseen {
		if err := a.tend(work, m); err != nil {
			a.log.Warn("an abandoned claim could not be withdrawn yet; it is tried again", AttrClaim, m.ID, AttrTask, m.Task.ID, AttrError, err)
		}
	}
	return Hold{}, d
}

// failed returns the denial of an attempt that failed for that cause after its claim was
// written.
func (a *attempt) failed(cause error) *Denied {
	d := ofPage(cause)
	d.Detail = cause.Error() + "; try again later"
	return &d
}

// deny ends the attempt and records the denial. remote says whether Notion was asked.
func (a *attempt) deny(ctx context.Context, d Denied, remote bool) (Hold, error) {
	d.Task = a.cl.Task
	if _, err := a.end(ctx, a.cl, EndNotGranted, d.Detail, a.denial(d, remote)); err != nil {
		return Hold{}, err
	}
	return Hold{}, &d
}

func (a *attempt) denial(d Denied, remote bool) Fact {
	e := a.cl.fact(KindDenied, a.store.Now())
	e.Code, e.Holder, e.Expires, e.Detail, e.Remote = d.Code, d.Holder, d.ExpiresAt, d.Detail, remote
	return e
}

// setAside ends an attempt that was to override a stale claim, if that claim's end uses up the
// task's tries: the task becomes BLOCKED, as if it were swept. setAside uses the visit v, which
// showed the claim, to write the mark. RunDue does the rest once the mark has settled.
func (a *attempt) setAside(ctx context.Context, v *visit, history string) (Hold, error) {
	former := v.Task
	_, err := a.deny(ctx, Denied{
		Code: CodeNotOpen,
		Detail: fmt.Sprintf("%q cannot be claimed: the claim of %s ran out, and it was tried as often as claim.max_attempts allows (%d), so it becomes %s; ask for the next ready task instead",
			former.Title, former.ClaimedBy, a.policy.MaxAttempts, a.policy.word(task.Blocked)),
	}, true)
	work, cancel := a.detached(ctx)
	defer cancel()
	merr := a.act(work, v, a.sweeping(former.ID, "", ""))
	if merr != nil {
		a.log.Warn("a task that was tried too often could not be marked yet, and the next sweep does it", AttrTask, former.ID, AttrError, merr)
	}
	return Hold{}, err
}
