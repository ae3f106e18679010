package claim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"dibs/internal/task"
)

// Errand is the purpose of a visit to a page.
type Errand string

// The errands. The first three visit the page of an agent's claim; the others take care of a
// mark, or make one.
const (
	Guard    Errand = "guard"    // to see whether a held claim stands
	Renewal  Errand = "renew"    // to write its lease anew
	Delivery Errand = "finish"   // to write what the agent said at its end
	Cleanup  Errand = "clean up" // to take the next step of a mark
	Sweeping Errand = "sweep"    // to mark a stale claim
	Tidying  Errand = "tidy"     // to take off a claim that is over
	Opening  Errand = "reopen"   // to set the status of a task that no agent has
)

// Sight is the input of the page of cases: a record, what its page shows, and what else is
// known here.
type Sight struct {
	Errand  Errand
	Hold    Hold // the record, where an agent has the claim
	Mark    Mark // the record otherwise
	Reading      // the page
	Policy  Policy
	Now     time.Time // Notion's time, as the store has it

	// Sent is set if a write was sent earlier on this errand and may have landed.
	Sent bool
	// Slow is set if the write window is over.
	Slow bool
	// Settled is set if the mark has settled: its date need not be waited for.
	Settled bool
	// Arrives is how long a write that frees the task may still be on its way. If it were
	// repeated now, the first one could land on the next claim.
	Arrives time.Duration
	// Late is the mark of the claim on the page, if that claim was abandoned and is not void
	// yet.
	Late *Mark
	// Marks are the marks on the task.
	Marks []Mark
	// Local is the claim that the page shows, or that a sweep covers, if an agent here has it. On
	// Opening it is whatever claim an agent here has on the task.
	Local Hold
	// Over is set if the page shows an ended claim of this ledger, which is the record's; on Opening
	// also if it is that of a mark. Copied is set if that claim was made on another task.
	Over, Copied bool

	// Ask is what was asked for, on Opening. Was and Former are the status and the name that the page
	// showed before something was written on this errand; empty if nothing was.
	Ask    *Reopening
	Was    task.Status
	Former string
	// Last is the agent of the last claim on the page, as far as that shows it, and Tried the history
	// of an OPEN task; both on Opening.
	Last, Tried string

	// Editor is the name of the Notion user who edited the page last, if it is known, and
	// another one than when the record was last compared with the page.
	Editor string

	// token is the page's.
	token Token
	// standing says how the hold fares. If it is isSuspect or isGone, holder has the task, and
	// detail says what happened.
	standing       standing
	holder, detail string
}

// standing says how a hold fares on its page.
type standing int

const (
	// isMine: the page shows all of the claim.
	isMine standing = iota
	// isDone: the page shows that the work was done under this claim, whatever became of the task
	// since.
	isDone
	// isCovered: an abandoned claim lies over this live one, or a part of it went with its column.
	// Nobody means to end it.
	isCovered
	// isSuspect: another live token lies over this live claim. A follower of the protocol would
	// have skipped the task, so it is probably a late write that its writer is about to
	// withdraw.
	isSuspect
	// isGone: the claim is over, whoever ended it.
	isGone
)

// judge compares the record with the page. It runs once everything else is known.
func (s *Sight) judge() {
	s.token = ParseToken(s.Task.Token)
	switch {
	case s.ofHold():
		s.standing, s.holder, s.detail = s.Policy.standing(s.Hold, s.Task, s.judged(), s.Late)
	case s.Errand == Opening:
		s.standing, s.holder, s.detail = s.Policy.standing(s.Local, s.Task, s.judged(), nil)
	}
}

// ofHold reports whether the record is a hold.
func (s Sight) ofHold() bool {
	return s.Errand == Guard || s.Errand == Renewal || s.Errand == Delivery
}

// standing compares a hold with a page read at now. late is the mark of the claim on the page,
// if that claim was abandoned. For isSuspect and isGone, standing also returns who has the task and
// what happened.
func (p Policy) standing(h Hold, t task.Task, now time.Time, late *Mark) (s standing, holder, detail string) {
	if t.Trashed {
		return isGone, "", "the task was moved to the trash"
	}
	if whole, ok := unedited(h, t); ok && now.Before(h.StaleAt) {
		if fares, _, _ := p.standing(h, whole, now, late); fares == isMine {
			return isCovered, "", "a part of it went with a column or an option that was deleted"
		}
	}
	tok := ParseToken(t.Token)
	own, live := tok.ID == h.ID, now.Before(h.StaleAt)
	if own && tok.Done {
		return isDone, h.Agent, "the task was completed under it"
	}
	if owner := Owner(t, h.Agent); owner != "" {
		return isGone, owner, fmt.Sprintf("it was assigned to %s, who has the task now", owner)
	}
	if t.Status != task.InProgress {
		holder = t.ClaimedBy
		if holder == h.Agent {
			holder = "" // the claim's own name is still there
		}
		if detail = "its status was set to " + p.word(t.Status); t.Status == task.Unknown {
			detail = "its status was changed: " + p.stands(t)
		}
		if t.Status == task.Open && own && !tok.Void {
			detail += " by a person, which hands it out again"
		}
		return isGone, holder, detail
	}
	switch {
	case own && !tok.Void && t.ClaimedBy == h.Agent:
		return isMine, h.Agent, ""
	case own && !tok.Void && t.ClaimedBy == "":
		return isGone, "", "its claimed_by was cleared"
	case own && !tok.Void:
		return isGone, t.ClaimedBy, fmt.Sprintf("its claimed_by was set to %s, who has the task now", t.ClaimedBy)
	case t.ClaimedBy == "":
		return isGone, "", "its claim was cleared"
	case !own && tok.Void && live:
		return isCovered, t.ClaimedBy, abandonedOver(t.ClaimedBy)
	case !own && tok.ID != "" && !tok.Done && live && late != nil: // the late write is known
		return isCovered, late.Agent, abandonedOver(late.Agent)
	case !own && tok.ID != "" && !tok.Done && live:
		return isSuspect, t.ClaimedBy, fmt.Sprintf("%s claimed the task over a live claim", t.ClaimedBy)
	case !own && tok.Void:
		return isGone, "", "it was marked to be reopened"
	case t.ClaimedBy != h.Agent:
		return isGone, t.ClaimedBy, fmt.Sprintf("%s has it now", t.ClaimedBy)
	}
	return isGone, t.ClaimedBy, "its claim token was changed"
}

// unedited returns t with the values of h in place of what is missing, if nobody has edited the page
// since it was last seen with the claim: then they went with a column or an option that was deleted
// in Notion. It returns false if nothing is missing, if somebody else's claim is there, or if none of
// this one is.
func unedited(h Hold, t task.Task) (task.Task, bool) {
	tok := ParseToken(t.Token)
	others := t.Token != "" && (tok.ID != h.ID || tok.Void || tok.Done) || t.ClaimedBy != "" && t.ClaimedBy != h.Agent
	nothing := t.Token == "" && t.ClaimedBy == ""
	missing := t.Token == "" || t.ClaimedBy == "" || t.Status != task.InProgress
	if !Unedited(h.Task, t) || others || nothing || !missing {
		return t, false
	}
	t.Status, t.ClaimedBy, t.Token = task.InProgress, h.Agent, string(h.ID)
	return t, true
}

// Unedited reports whether a page that was read as now is known to be as it was seen, or written here,
// earlier. Dates of edits are cut to the minute.
func Unedited(before, now task.Task) bool {
	return now.EditedBy != "" && now.EditedBy == before.EditedBy && now.Edited.Equal(before.Edited)
}

func abandonedOver(agent string) string {
	return fmt.Sprintf("an abandoned claim of %s lies over it", agent)
}

// undated reports whether t shows a claim whose date somebody cleared. Nobody may claim such a
// task.
func undated(t task.Task) bool {
	return t.Status == task.InProgress && t.ClaimedBy != "" && t.ClaimedAt.IsZero() && !t.Trashed && unbegun(t) == ""
}

// live reports whether nobody takes the task before a write sent now must have arrived: its lease
// lasts that long by a confirmed time, or its claim's date was cleared.
func (p Policy) live(r Reading) bool {
	return undated(r.Task) || !r.Unsure && r.At.Before(p.LeaseEnd(r.Task)) && p.outlives(r.Task, r.At)
}

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

// allows reports whether a task in status s may be changed, or is changed already.
func (r Reopening) allows(s task.Status) bool {
	if r.Was == "" && (s == task.Blocked || s == task.Failed || s == task.Review) {
		return true
	}
	return s == r.Was || s == r.to()
}

// asked says what r asks for.
func (p Policy) asked(r Reopening) string {
	if r.opens() {
		return "reopened"
	}
	return "set to " + p.word(r.To)
}

// signature returns the name under the note.
func (r Reopening) signature() string { return cmp.Or(r.Agent, r.By, Sweeper) }

// Case is a row of the page of cases.
type Case struct {
	On Errand
	// State limits the case to marks in that state; empty for any.
	State MarkState
	// If words the condition, and Then what is done.
	If, Then string

	when func(Sight) bool
	step func(Sight) Step
}

// Cases is the page of cases: it decides what is done to a page that was read, except by an
// attempt. The first case that applies decides.
type Cases []Case

// Next returns the case that decides, and its step. It is a pure function except for the ids
// that it mints.
func (cs Cases) Next(s Sight) (Case, Step) {
	s.judge()
	for _, c := range cs {
		if c.On == s.Errand && (c.State == "" || c.State == s.Mark.State) && c.when(s) {
			return c, c.step(s)
		}
	}
	return Case{On: s.Errand}, Step{}
}

// Step is what a case does. Its fields are carried out in order, as far as they are set.
//
// Enough, Then and Else are functions because they depend on the answer to the write, which there is
// only once the step is taken. They look at nothing but that answer and the Sight that the step was
// made from, and change nothing.
type Step struct {
	// Save is stored before anything is written.
	Save Change
	// Write is sent to the page. Compete says that others may be about to write to it as well.
	Write   *Write
	Compete bool
	// Other says that the write is not the one of the errand: that it may have landed does not
	// count as Sight.Sent.
	Other bool
	// Enough reports whether the write's answer proves it. If not, the page is read again after
	// the settle wait.
	Enough func(answer Reading) bool
	// Then returns the change to store once the write's answer shows the write, or at once if
	// there is no write. It is called with the page as it is then.
	Then func(now Reading) Change
	// Else returns the change to store, and the error to return, if the write is not seen. A
	// notYet has the page read again, as does a nil Else.
	Else func(f fate, err error) (Change, error)
	// Next is an errand that follows: once the write was seen, or at once if there is none. Then the
	// page is read again.
	Next Errand
	// Under is the mark under which the write is sent, if that is not the errand's own record.
	Under ID
	// Off is set if the write takes a mark off its page, as planned.
	Off bool
	// Err is the outcome.
	Err error
}

// under returns the step with its write, which frees the task, sent under a mark: until it must have
// arrived, the mark is not over, and nothing is granted.
func (s Step) under(m Mark) Step {
	gone := m.gone(m.Due, m.Reason)
	then, other := s.Then, s.Else
	s.Under = m.ID
	s.Save.Marks = append(slices.Clip(s.Save.Marks), m)
	s.Then = func(now Reading) Change {
		ch := then(now)
		ch.Marks = append(ch.Marks, gone)
		return ch
	}
	s.Else = func(f fate, err error) (Change, error) {
		ch, err := other(f, err)
		if f == notLanded {
			ch.Marks = append(ch.Marks, gone)
		}
		return ch, err
	}
	return s
}

// again returns the error of a write that was not seen: the page is read again, after the settle wait
// if the write may be on its way.
func (s Sight) again(f fate, cause error) error {
	if f == notLanded {
		return notYet{cause: cause}
	}
	return notYet{cause, s.Policy.Settle}
}

// undone returns the error of a write that was not seen: the page is read again after the settle wait,
// unless Notion refused the write.
func (s Sight) undone(f fate, err error) error {
	if f == notLanded && storeKind(err) != Unavailable {
		d := ofPage(err)
		d.Task = s.Task
		return &d
	}
	return notYet{f.explain("the write", err), s.Policy.Settle}
}

// nothing returns the step that does nothing.
func (Sight) nothing() Step { return Step{} }

// storing returns the step that only stores ch.
func storing(ch Change) Step { return Step{Then: func(Reading) Change { return ch }} }

// always is the condition of the last case of an errand.
func (Sight) always() bool { return true }

// either returns the condition that one of several holds.
func either(conditions ...func(Sight) bool) func(Sight) bool {
	return func(s Sight) bool {
		return slices.ContainsFunc(conditions, func(c func(Sight) bool) bool { return c(s) })
	}
}
