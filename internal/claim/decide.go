package claim

import (
	"fmt"
	"time"

	"dibs/internal/task"
)

// Decision is what the pre-flight makes of a task. Code is empty when the task
// may be claimed.
type Decision struct {
	Code Code
	// Override is set when claiming takes the task from a stale claim.
	Override bool
	// Holder is who has the task, or had it before an override.
	Holder string
	// LeaseEnd is when the holder's lease ends at the latest; zero for an
	// assignment and for nobody.
	LeaseEnd time.Time
	// Reason says in one line why the task cannot be claimed.
	Reason string
}

// dated reports whether the date that t shows beside a name is that of a claim under this
// name. It is not, if a person put another name on a task that was completed, and opened it
// again: the date is of the claim that is done.
func dated(t task.Task) bool {
	tok := ParseToken(t.Token)
	return !t.ClaimedAt.IsZero() && (!tok.Done || tok.By == "" || tok.By == t.ClaimedBy)
}

// Assignee is the name that t is assigned to: nobody else may claim it, however long it
// takes, and that agent may. It is empty if t is not assigned. A name without a date on
// a task that is OPEN or IN_PROGRESS is an assignment, unless the task shows a claim that
// an agent may hold, whose date somebody cleared. So is a name that was put in the place of
// that of who completed the task.
func Assignee(t task.Task) string {
	if t.Trashed || dated(t) {
		return ""
	}
	switch tok := ParseToken(t.Token); {
	case t.Status == task.Open, t.Status == task.InProgress && (tok.ID == "" || tok.Done):
		return t.ClaimedBy
	}
	return ""
}

// decide is Decide for a reading.
func (p Policy) decide(r Reading, agent string, blockers []task.ID) Decision {
	d := Decide(r.Task, agent, blockers, r.judged(), p)
	if d.Code == CodeHeld && p.Stale(r.Task, r.At) {
		d.Reason += ", whose lease seems to be over, but Notion's answers do not agree on the time, or have none (see the daemon's log)"
	}
	return d
}

// Decide says whether the agent may claim a task at now, which is Notion's time as
// of the reading. blockers are its dependencies that are not COMPLETED. Asking
// again under the holder's own name makes no difference: two sessions may share
// a name. Only for an assignment does it matter who asks; an empty agent is anybody.
func Decide(t task.Task, agent string, blockers []task.ID, now time.Time, p Policy) Decision {
	switch {
	case t.Trashed:
		return Decision{Code: CodeNotOpen, Reason: "it is in the trash or archived"}
	case t.Status != task.Open && t.Status != task.InProgress:
		return Decision{Code: CodeNotOpen, Reason: stands(t.Status)}
	}

	claimed, assignee := t.ClaimedBy != "", Assignee(t)
	if t.Status == task.Open && ParseToken(t.Token).Done && dated(t) {
		// A person reopened a completed task; its last claim is history.
		claimed = false
	}
	d := Decision{}
	switch {
	case assignee != "" && assignee == agent:
	case assignee != "":
		return Decision{
			Code: CodeReserved, Holder: assignee,
			Reason: fmt.Sprintf("it is assigned to %s, and only an agent of that name may claim it", assignee),
		}
	case !claimed && t.Status == task.InProgress:
		return Decision{Code: CodeNotOpen, Reason: "it is IN_PROGRESS without a holder; set it to OPEN to hand it out"}
	case claimed && t.ClaimedAt.IsZero():
		return Decision{
			Code: CodeReserved, Holder: t.ClaimedBy,
			Reason: fmt.Sprintf("it shows a claim of %s whose claimed_at was cleared; if %[1]s is gone, set it to OPEN and clear claimed_by to hand it out", t.ClaimedBy),
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
	if len(blockers) > 0 {
		return Decision{
			Code:   CodeBlockedByDependency,
			Reason: waiting(len(blockers)),
		}
	}
	return d
}

// stands says that a task is in a status.
func stands(s task.Status) string {
	if s == task.Unknown {
		return "its status is " + said(s)
	}
	return "it is " + said(s)
}

// waiting says that a task waits for so many others. Which ones they are, says who knows
// their titles.
func waiting(n int) string {
	if n == 1 {
		return "it waits for another task, which is not finished"
	}
	return fmt.Sprintf("it waits for %d other tasks, which are not finished", n)
}
