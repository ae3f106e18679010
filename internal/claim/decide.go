package claim

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Decision is the result of the pre-flight. Code is empty if the task may be claimed.
type Decision struct {
	Code Code
	// Override is set if the claim takes the task from a stale claim.
	Override bool
	// Holder has the task, or had it before an override.
	Holder string
	// LeaseEnd is the latest moment at which the holder's lease can end; zero for an
	// assignment, or without a holder.
	LeaseEnd time.Time
	// Reason says in one line why the task cannot be claimed.
	Reason string
}

// decide calls Decide for a reading.
func (p Policy) decide(r Reading, agent string, blockers []task.ID) Decision {
	d := Decide(r.Task, agent, blockers, r.judged(), p)
	if d.Code == CodeHeld && p.Stale(r.Task, r.At) {
		d.Reason += ", whose lease seems to be over, but Notion's answers do not agree on the time, or have none (see the daemon's log)"
	}
	return d
}

// Decide says whether the agent may claim a task at now, which is Notion's time as of the
// reading. blockers are the task's dependencies that are not COMPLETED. A holder that asks
// again under its own name is refused like anyone else: two sessions may share a name. Only an
// assignment depends on who asks; an empty agent stands for anybody.
func Decide(t task.Task, agent string, blockers []task.ID, now time.Time, p Policy) Decision {
	switch {
	case t.Trashed:
		return Decision{Code: CodeNotOpen, Reason: "it is in the trash or archived"}
	case t.Status != task.Open && t.Status != task.InProgress:
		return Decision{Code: CodeNotOpen, Reason: p.stands(t)}
	}

	claimed, assignee := t.ClaimedBy != "", unbegun(t)
	if t.Status == task.Open && ParseToken(t.Token).Done && dated(t) {
		// A person reopened a completed task; its last claim is history.
		claimed = false
	}
	owner := Owner(t, agent)
	// The agent in the column works on it.
	atWork := t.AssigneeIsAgent && owner == t.ClaimedBy && claimed && dated(t) && !p.Stale(t, now)
	d := Decision{}
	switch {
	case owner != "" && !atWork:
		return Decision{
			Code: CodeReserved, Holder: owner,
			Reason: fmt.Sprintf("it is assigned to %s; take %[1]s out of the board's column of assignees to hand it out", owner),
		}
	case assignee != "" && assignee == agent:
	case assignee != "":
		return Decision{
			Code: CodeReserved, Holder: assignee,
			Reason: fmt.Sprintf("it is assigned to %s, and only an agent of that name may claim it", assignee),
		}
	case !claimed && t.Status == task.InProgress:
		return Decision{Code: CodeNotOpen, Reason: fmt.Sprintf("it is %s without a holder; set it to %s to hand it out", p.word(t.Status), p.word(task.Open))}
	case claimed && t.ClaimedAt.IsZero():
		return Decision{
			Code: CodeReserved, Holder: t.ClaimedBy,
			Reason: fmt.Sprintf("it shows a claim of %s whose claimed_at was cleared; if %[1]s is gone, set it to %s and clear claimed_by to hand it out", t.ClaimedBy, p.word(task.Open)),
		}
	case claimed:
		d = Decision{Holder: t.ClaimedBy, LeaseEnd: p.LeaseEnd(t)}
		switch {
		case !p.Stale(t, now):
			d.Code, d.Reason = CodeHeld, fmt.Sprintf("%s holds it", t.ClaimedBy)
			return d
		case t.Status == task.InProgress && p.OpenOnly:
			d.Code, d.Reason = CodeNotOpen, fmt.Sprintf("the claim of %s is stale, and the next sweep reopens it", t.ClaimedBy)
			return d
		}
		d.Override = true
	}
	if t.Outside != "" {
		return Decision{Code: CodeNotOffered, Reason: fmt.Sprintf("it is none of the tasks for agents (tasks.only): %s", t.Outside)}
	}
	if len(blockers) > 0 {
		return Decision{
			Code:   CodeBlockedByDependency,
			Reason: waiting(len(blockers)),
		}
	}
	return d
}

// stands words the status of a task.
func (p Policy) stands(t task.Task) string {
	switch {
	case t.Status != task.Unknown:
		return "it is " + p.word(t.Status)
	case t.StatusName == "":
		return "it has no status"
	}
	return fmt.Sprintf("it has the status %q, which tasks.statuses does not name", t.StatusName)
}

// waiting says how many unfinished tasks a task waits for. The caller adds the titles if it
// knows them.
func waiting(n int) string {
	if n == 1 {
		return "it waits for another task, which is not finished"
	}
	return fmt.Sprintf("it waits for %d other tasks, which are not finished", n)
}

// Deny returns the denial of t that the decision calls for.
func (d Decision) Deny(t task.Task) *Denied {
	return &Denied{
		Code: d.Code, Task: t, Holder: d.Holder, ExpiresAt: d.LeaseEnd,
		Detail: fmt.Sprintf("%q cannot be claimed: %s; ask for the next ready task instead", t.Title, d.Reason),
	}
}

// word returns a status as people know it.
func (p Policy) word(s task.Status) string { return p.Words.StatusName(s) }

// wanted returns the decision d. If t may be claimed but its agent does not want it, see
// Request.Unwanted, wanted returns a refusal instead.
func (d Decision) wanted(t task.Task, reason func(task.Task) string) (_ Decision, unwanted bool) {
	if d.Code != "" || reason == nil {
		return d, false
	}
	why := reason(t)
	if why == "" {
		return d, false
	}
	return Decision{Code: CodeNotOpen, Reason: "it is not what was asked for: " + why}, true
}

// Code says why a claim was denied. Codes are part of the contract.
type Code string

// The codes of denials.
const (
	CodeHeld                Code = "held"
	CodeNotOpen             Code = "not_open"
	CodeLostRace            Code = "lost_race"
	CodeBlockedByDependency Code = "blocked_by_dependency"
	CodeReserved            Code = "reserved"    // assigned to somebody else, or it touches what another one has
	CodeNotOffered          Code = "not_offered" // outside of tasks.only, or taken back from the agent
	CodeNothingReady        Code = "nothing_ready"
	CodePaused              Code = "paused" // nothing is granted for now
	CodeLimitReached        Code = "limit_reached"
	CodeNotFound            Code = "not_found"
	CodeNotionUnavailable   Code = "notion_unavailable"
	CodeNotionRefused       Code = "notion_refused" // a person has to change something
	CodeJournalUnavailable  Code = "journal_unavailable"
)

// Denied is the error of an attempt that was not granted.
type Denied struct {
	Code Code
	Task task.Task // the task, as far as it is known
	// Holder has the task, or paused the grants; empty if nobody did.
	Holder string
	// Pattern is what the holder has reserved of what the task touches; empty for another reason.
	Pattern string
	// ExpiresAt is when the holder's lease ends, or the pause or the limit, in Notion's time;
	// zero if unknown or never.
	ExpiresAt time.Time
	// Has lists the claims that the agent holds or is finishing, for CodeLimitReached.
	Has []Hold
	// RetryAfter is how long to wait before trying again; zero if unknown.
	RetryAfter time.Duration
	// Detail says what happened and what to do, in one line.
	Detail string
	// Reach is how far the attempt got.
	Reach Reach
	// Err is the store's or the journal's error, if one caused the denial.
	Err error
}

// Reach says how far an attempt got that was denied.
type Reach int

// The reaches.
const (
	// ReachDecided: the page shows why, or nothing could be asked of Notion, whatever the task.
	ReachDecided Reach = iota
	// ReachUnrecorded: the page shows why, and the caller is to record it, see Request.Quiet.
	ReachUnrecorded
	// ReachBarred: the agent is granted nothing for now, whatever the task. Notion was not asked.
	ReachBarred
	// ReachLocal: the reservation was refused. Notion was not asked, and nothing changed for anybody
	// else.
	ReachLocal
	// ReachPage: the task's page could not be read or written. Other tasks may still be available.
	ReachPage
	// ReachUnseen: the claim was written but is not on the page, and neither is a claim of anybody
	// else. A new attempt, under a new id, may be made at once.
	ReachUnseen
)

// IsLocal reports whether the denial was made here, before Notion was asked.
func (r Reach) IsLocal() bool { return r == ReachBarred || r == ReachLocal }

// IsPage reports whether the page was tried in vain.
func (r Reach) IsPage() bool { return r == ReachPage || r == ReachUnseen }

func (d *Denied) Error() string { return d.Detail }

func (d *Denied) Unwrap() error { return d.Err }

// Lost is the error of an operation on a claim that is no longer the agent's.
type Lost struct {
	Claim Hold
	// Asked is the agent that asked, if it is not the claim's own.
	Asked string
	// Holder has the task now; empty if nobody does or it is not known.
	Holder string
	Detail string
}

func (l *Lost) Error() string {
	if l.Asked != "" && l.Asked != l.Claim.Agent {
		return fmt.Sprintf("%q is not %s's: %s has it", l.Claim.Task.Title, l.Asked, l.Claim.Agent)
	}
	return fmt.Sprintf("%q is no longer %s's: %s", l.Claim.Task.Title, l.Claim.Agent, l.Detail)
}

// isLost reports whether err is a *Lost.
func isLost(err error) bool {
	_, lost := errors.AsType[*Lost](err)
	return lost
}

// unavailable returns the denial for a failure of the store or the journal.
func unavailable(err error) Denied {
	d := Denied{Code: CodeNotionUnavailable, RetryAfter: RetryAfter(err), Err: err, Detail: err.Error()}
	if why, ok := errors.AsType[*JournalError](err); ok {
		d.Code, d.RetryAfter = CodeJournalUnavailable, why.RetryAfter
		return d
	}
	switch storeKind(err) {
	case Unavailable:
		d.Detail = "Notion cannot be reached: " + d.Detail
	case NotFound:
		d.Code = CodeNotFound
	case Trashed:
		d.Code = CodeNotOpen
	case Refused:
		d.Code = CodeNotionRefused
	}
	return d
}

// ofPage returns the denial for a failure to read or write the task's page.
func ofPage(err error) Denied {
	d := unavailable(err)
	d.Reach = ReachPage
	return d
}

// Assignee returns who t is assigned to, people or an agent; empty for nobody. Only an OPEN or
// IN_PROGRESS task is assigned, and an assignment never goes stale. Whoever is in the column of
// assignees goes before a name in claimed_by, whatever claim t shows.
func Assignee(t task.Task) string {
	if t.Trashed || t.Status != task.Open && t.Status != task.InProgress {
		return ""
	}
	return cmp.Or(t.Assignee, unbegun(t))
}

// Whose returns who has t as far as its page says: whom it is assigned to, or else whose name is in
// claimed_by. On a finished task that is who did the work.
func Whose(t task.Task) string { return cmp.Or(Assignee(t), t.ClaimedBy) }

// AssignedAgent returns the only agent that may claim t; empty if any may, or if people have it.
func AssignedAgent(t task.Task) string {
	if t.Assignee != "" && !t.AssigneeIsAgent {
		return ""
	}
	return Assignee(t)
}

// unbegun returns who is assigned to t while t shows no claim. A name without a date on an OPEN
// or IN_PROGRESS task is an assignment, unless the task shows a claim that an agent may hold and
// whose date somebody cleared. A name that replaced that of the agent who completed the task is
// an assignment, too.
func unbegun(t task.Task) string {
	if t.Trashed || dated(t) {
		return ""
	}
	switch tok := ParseToken(t.Token); {
	case t.Status == task.Open, t.Status == task.InProgress && (tok.ID == "" || tok.Done):
		return cmp.Or(t.Assignee, t.ClaimedBy)
	}
	return ""
}

// Owner returns who keeps agent off t by the column of assignees, whatever claim t shows: another
// agent, or people. It is empty if nobody is there, or if agent is.
func Owner(t task.Task, agent string) string {
	if t.AssigneeIsAgent && t.Assignee == agent {
		return ""
	}
	return t.Assignee
}
