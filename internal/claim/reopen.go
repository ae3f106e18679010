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

// Reopening asks for a task that no agent has to get another status: OPEN again, or what else a
// person says of it.
type Reopening struct {
	// Task is the task to reopen. Only its ID is required.
	Task task.Task
	// Agent is the agent that asks; empty for a person.
	Agent string
	// By is the user who asks where no agent does, see Fact.By.
	By string
	// Note says why.
	Note string
	// Was is the status in which the caller saw the task: in any other, the task is left alone.
	// If it is empty, only a task that is BLOCKED, FAILED or in REVIEW is opened.
	Was task.Status
	// Holder is the name that the caller saw on the task: under any other, the task is left
	// alone. If it is empty, the caller saw the name of the last claim, which a finished task
	// keeps.
	Holder string
	// Left is the task as its last claim left it: if anybody edited the page since, it is left
	// alone. Nil allows that.
	Left *task.Task
	// To is the new status, one of ToStatuses; empty is OPEN. Any other than OPEN needs Was.
	To task.Status
}

// ToStatuses returns the statuses that a Reopening may give.
func ToStatuses() []task.Status {
	return []task.Status{task.Open, task.Blocked, task.Completed, task.Cancelled}
}

// moves are the facts and the notes of a change of status.
var moves = map[task.Status]struct {
	kind Kind
	note string
}{
	task.Open: {KindReopened, noteReopened}, task.Blocked: {KindBlocked, noteBlocked},
	task.Completed: {KindCompleted, noteDone}, task.Cancelled: {KindCancelled, noteCancelled},
}

// opens reports whether the task is to be OPEN.
func (r Reopening) opens() bool { return r.to() == task.Open }

func (r Reopening) to() task.Status { return cmp.Or(r.To, task.Open) }

// signature returns the name under the note.
func (r Reopening) signature() string { return cmp.Or(r.Agent, r.By, Sweeper) }

// Reopen sets the status of a task that no agent holds. With OPEN, it takes name, date and token
// off the task, which nobody can claim before, and forgets the tries at it. Such a task is BLOCKED,
// FAILED, in REVIEW, COMPLETED or CANCELLED, or IN_PROGRESS without a name; with another new
// status, it may be OPEN. Reopen returns the task and its former status, which is the new one if
// there was nothing to do. The error is a *Denied unless the ledger failed: CodeHeld if the page
// shows a live claim or an agent here has one, CodeNotOpen if r.Was does not allow the task's
// status, and CodeReserved if r.Holder does not allow the name on it. Both are checked in every
// reading of the page, the last of which precedes the write, and the status once more if the fate
// of the write is unknown.
//
// Nobody can claim a task in these statuses. But somebody else may open it too, and an agent
// claim it, while our write is on its way. So Reopen first takes off the remains of a claim,
// under a mark that competes like that of a sweep. Then it changes the status in a write of
// nothing else: over a live claim that looks like a person's gesture, and nobody else gets the
// task before the holder's daemon has found out. The same holds for a claim of an OPEN task that
// comes between.
func (c *Claimer) Reopen(ctx context.Context, r Reopening) (t task.Task, was task.Status, err error) {
	unlock, err := c.locks.Lock(ctx, r.Task.ID)
	if err != nil {
		return task.Task{}, "", err
	}
	defer unlock()
	work, cancel := c.detached(ctx)
	defer cancel()
	o := &reopener{Claimer: c, Reopening: r}
	for range reopenTries {
		if err := ctx.Err(); err != nil {
			return task.Task{}, "", err
		}
		if t, err := o.once(work); !isNotYet(err) {
			return t, o.was, err
		}
	}
	d := ofPage(o.Task, o.failure)
	if _, left := o.landing(o.Task); left > 0 {
		d.RetryAfter = left
	}
	if o.sent {
		d.Detail = fmt.Sprintf("it is not known whether %q was %s, look at it or ask again: %s", o.Task.Title, o.asked(), d.Detail)
	}
	return task.Task{}, "", &d
}

// reopenTries is how often Reopen visits the page. It needs two visits where remains of a claim
// are left.
const reopenTries = 5

// reopener is one call of Reopen.
type reopener struct {
	*Claimer
	Reopening
	was    task.Status // the status before the write
	former string      // the name on the page
	// sent is set if the write of the status may have landed. under is the mark under which a
	// write was sent that opens the task.
	sent    bool
	under   []Mark
	failure error // of the last try
}

// once tries to reopen the task. It returns a notYet if the page must be visited again.
func (o *reopener) once(ctx context.Context) (task.Task, error) {
	v, err := o.visit(ctx, o.Task.ID, 0)
	if err != nil {
		if storeKind(err) == NotFound && o.askAgain(ctx, o.Task.ID) == nil {
			o.failure = err
			return task.Task{}, notYet{}
		}
		d := ofPage(o.Task, err)
		return task.Task{}, &d
	}
	defer v.Close()
	o.Task = v.Task
	if o.sent && v.Task.Status != o.was {
		if v.Task.Status == o.to() || o.opens() && v.Task.Status == task.InProgress { // perhaps it was claimed since
			return o.done(ctx, v.Task)
		}
		return task.Task{}, o.decided(v.Task)
	}
	if _, left := o.landing(v.Task); left > 0 { // nor is it sent again
		if o.failure == nil {
			o.failure = Errorf(Unavailable, LandedNo, "an earlier write that opens it or takes a claim off it was never answered, and may still take effect in the next %v", left.Round(time.Second))
		}
		return task.Task{}, o.waiting(ctx)
	}
	for _, cl := range o.book.on(v.Task.ID) {
		if cl.State != Held && cl.State != Finishing {
			continue
		}
		if s, _, _ := o.policy.standing(cl, v.Task, v.judged(), nil); cl.State == Held && s == isGone && !v.Unsure {
			v.Close()
			return task.Task{}, o.discover(ctx, cl)
		}
		d := Occupied(cl)
		d.Detail = fmt.Sprintf("%q was not %s: %s", v.Task.Title, o.asked(), cl.occupies())
		return task.Task{}, d
	}
	if d, err := o.refusal(ctx, v.Reading); err != nil {
		return task.Task{}, err
	} else if d != nil {
		return task.Task{}, d
	}
	if !o.seen(v.Task.Status) {
		return task.Task{}, o.decided(v.Task)
	}
	if o.was == "" && o.Left != nil && !Unedited(*o.Left, v.Task) { // afterwards we may have written ourselves
		return task.Task{}, o.unseen(Denied{Code: CodeNotOpen, Task: v.Task}, "somebody edited it since", "")
	}
	o.was, o.former = v.Task.Status, cmp.Or(o.former, v.Task.ClaimedBy)
	if o.was == o.to() {
		return o.done(ctx, v.Task)
	}
	if last, err := o.lastClaimer(ctx, v.Task); err != nil {
		return task.Task{}, err
	} else if who := Whose(v.Task); who != "" && who != cmp.Or(o.Holder, last) {
		return task.Task{}, o.taken(v.Task, who)
	}
	if v.Task.ClaimedBy != "" && o.opens() {
		return task.Task{}, o.clear(ctx, v)
	}
	return o.write(ctx, v)
}

// discover ends a claim that is held here but over according to its page, before the task is
// reopened under it. It returns a notYet if that succeeded.
func (o *reopener) discover(ctx context.Context, cl Hold) error {
	err := o.run(ctx, &errand{kind: Guard, hold: cl})
	if err == nil || isLost(err) {
		o.failure = err
		return notYet{}
	}
	d := unavailable(err)
	d.Task = o.Task
	return &d
}

// asked says what was asked for.
func (o *reopener) asked() string {
	if o.opens() {
		return "reopened"
	}
	return "set to " + o.policy.word(o.To)
}

// seen reports whether a task in status s may be changed, or is changed already.
func (o *reopener) seen(s task.Status) bool {
	if o.Was == "" && (s == task.Blocked || s == task.Failed || s == task.Review) {
		return true
	}
	return s == o.Was || s == o.to()
}

// decided returns the refusal for a status of t that the caller has not seen.
func (o *reopener) decided(t task.Task) *Denied {
	is := "it is " + o.policy.word(t.Status)
	if o.Was != "" {
		is += fmt.Sprintf(", and not %s any more", o.policy.word(o.Was))
	}
	return o.unseen(Denied{Code: CodeNotOpen, Task: t}, is, "")
}

// taken returns the refusal for a name on t that the caller has not seen.
func (o *reopener) taken(t task.Task, who string) *Denied {
	is := fmt.Sprintf("%s has it", who)
	if o.Holder != "" {
		is += fmt.Sprintf(", and not %s any more", o.Holder)
	}
	return o.unseen(Denied{Code: CodeReserved, Task: t, Holder: who}, is, fmt.Sprintf(" --holder %q", who))
}

// unseen words a refusal: what the task is, and the flag that says that this was seen.
func (o *reopener) unseen(d Denied, is, flag string) *Denied {
	t, say := d.Task, "look at it, and ask again"
	if o.opens() {
		say = fmt.Sprintf("look at it, and to open it all the same say so: dibs reopen %s --was %s%s", cmp.Or(t.Key, string(t.ID)), t.Status, flag)
	}
	d.Detail = fmt.Sprintf("%q was not %s: %s; %s", t.Title, o.asked(), is, say)
	return &d
}

// lastClaimer returns the agent of the last claim on t, as far as t shows it; empty if t shows
// none.
func (o *reopener) lastClaimer(ctx context.Context, t task.Task) (string, error) {
	tok := ParseToken(t.Token)
	if tok.By != "" {
		return tok.By, nil
	}
	if tok.ID != "" {
		if m, _, err := o.known(ctx, tok.ID); !errors.Is(err, ErrUnknownClaim) {
			return m.Agent, err
		}
	}
	if dated(t) { // a claim that is stale
		return t.ClaimedBy, nil
	}
	return "", nil
}

// refusal returns why the task that r shows must not be reopened; nil if it may be.
func (o *reopener) refusal(ctx context.Context, r Reading) (*Denied, error) {
	t := r.Task
	refuse := func(d Decision) *Denied {
		denied := d.Deny(t)
		denied.Detail = fmt.Sprintf("%q was not %s: %s", t.Title, o.asked(), d.Reason)
		return denied
	}
	d := o.policy.decide(r, "", nil)
	switch {
	case t.Trashed, t.Status == task.Unknown, t.Status == task.InProgress && t.Assignee != "":
		return refuse(d), nil
	case t.Status == task.InProgress && t.ClaimedBy != "":
		if d.Code == "" || d.Override || d.Code == CodeNotOpen { // or will be by the next one who asks
			d = Decision{Code: CodeNotOpen, Reason: fmt.Sprintf("it is %s, and the claim of %s on it is stale: `dibs sweep` reopens it", o.policy.word(t.Status), t.ClaimedBy)}
		}
		return refuse(d), nil
	}
	tok := ParseToken(t.Token)
	named := t.ClaimedBy != "" && dated(t) && !tok.Done
	// A person may have taken name or date off a claim, or changed the status under it, before
	// its daemon found out.
	shown := tok.ID != "" && !tok.Done
	if !shown && !named || o.ranOutOn(t, r.judged()) {
		return nil, nil
	}
	if shown {
		m, over, err := o.known(ctx, tok.ID)
		if err == nil && (over || m.State != "") {
			return nil, nil
		}
		if err != nil && !errors.Is(err, ErrUnknownClaim) {
			return nil, err
		}
	}
	if !named {
		d.Reason = fmt.Sprintf("it is %s, and shows the token of a claim that may not be over: try again in a minute through the daemon that made it, or set it to %s in Notion", o.policy.word(t.Status), o.policy.word(task.Open))
		return refuse(d), nil
	}
	return refuse(Decision{
		Code: CodeHeld, Holder: t.ClaimedBy, LeaseEnd: o.policy.LeaseEnd(t),
		Reason: fmt.Sprintf("it still shows the claim of %s, who may be at work on it until %s", t.ClaimedBy, noteTime(o.policy.LeaseEnd(t))),
	}), nil
}

// ranOutOn reports whether the claim whose remains t shows is stale at now, whatever name the
// page shows.
func (o *reopener) ranOutOn(t task.Task, now time.Time) bool {
	return !t.ClaimedAt.IsZero() && now.After(o.policy.StaleAt(t.ClaimedAt, o.policy.LeaseOf(t)))
}

// clear takes the name and the rest of its claim off the page.
func (o *reopener) clear(ctx context.Context, v *visit) error {
	t, now := v.Task, o.store.Now()
	id := NewID(now)
	e := &errand{kind: Opening, mark: Mark{
		ID: id, Why: ForReopening, Of: cmp.Or(ParseToken(t.Token).ID, id), Agent: t.ClaimedBy, Task: t, Made: now, Reason: "the task is being reopened",
	}}
	err := o.act(ctx, v, e)
	v.Close()
	if e.mark.State == Gone && storeKind(err) != Unavailable { // nothing was written
		d := ofPage(t, err)
		return &d
	}
	if e.wrote {
		e.mark, _, err = o.takeOff(ctx, e.mark)
	} else if clock.Pause(ctx, o.settle()) != nil {
		return ErrStopped
	}
	if ctx.Err() != nil {
		return ErrStopped
	}
	if err != nil {
		o.failure = err
	}
	return notYet{}
}

// write sets the status on the page, with a note, and nothing else.
func (o *reopener) write(ctx context.Context, v *visit) (task.Task, error) {
	w := Write{Status: new(o.to()), Note: new(noteLine(moves[o.to()].note, o.Note, o.signature(), v.At))}
	if now := o.store.Now(); w.frees() {
		o.under = []Mark{{ID: NewID(now), Why: ForReopening, Agent: o.Agent, Task: v.Task, State: Clearing, Made: now, Due: now}}
		if err := v.commit(ctx, Change{Marks: o.under}); err != nil {
			return task.Task{}, err
		}
	}
	answer, f, err := v.write(w)
	if f == notLanded && w.frees() && !notSaved(err) {
		err = errors.Join(err, o.commit(ctx, Change{Marks: o.arrived()}))
	}
	switch {
	case f == seen:
		return o.done(ctx, answer.Task)
	case notSaved(err):
		return task.Task{}, err
	case f == notLanded && storeKind(err) != Unavailable:
		d := ofPage(v.Task, err)
		return task.Task{}, &d
	}
	if f == unknown {
		o.sent = true
		for _, m := range o.under {
			o.fly(m.ID)
		}
	}
	o.failure = err
	return task.Task{}, o.waiting(ctx)
}

// arrived returns the end of the mark under which the write was sent.
func (o *reopener) arrived() (gone []Mark) {
	for _, m := range o.under {
		gone = append(gone, m.gone(o.store.Now(), ""))
	}
	o.under = nil
	return gone
}

// waiting gives a write on its way the time to arrive and show on the next reading.
func (o *reopener) waiting(ctx context.Context) error {
	if clock.Pause(ctx, o.settle()) != nil {
		return ErrStopped
	}
	return notYet{}
}

// done records the change. If there was none, done records a reopening only if tries are
// forgotten, and else nothing.
func (o *reopener) done(ctx context.Context, t task.Task) (task.Task, error) {
	if o.was == o.to() && !o.opens() {
		return t, nil
	}
	e := Hold{Agent: o.Agent, Task: t}.fact(moves[o.to()].kind, o.store.Now())
	e.By = o.By
	e.Holder, e.Summary, e.Remote = o.former, o.Note, true
	if o.opens() {
		e.Tried = TriedOver
	}
	e.Detail = "it was " + o.policy.word(o.was)
	if o.was == o.to() {
		tries, err := o.ledger.Tries(ctx, t.ID)
		if err != nil || len(tries) == 0 {
			return t, err
		}
		e.Detail = fmt.Sprintf("it was %s already; that it was tried is forgotten: %s", o.policy.word(o.was), historyOf(tries))
	}
	if err := o.commit(ctx, Change{Marks: o.arrived(), Facts: []Fact{e}}); err != nil {
		return task.Task{}, fmt.Errorf("%q was %s, but that could not be journalled: %w", t.Title, o.asked(), err)
	}
	return t, nil
}
