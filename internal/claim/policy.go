package claim

import (
	"cmp"
	"fmt"
	"time"

	"dibs/internal/task"
)

// clockAllowance is how far two parties' estimates of Notion's time may differ: the Date header
// is cut to the second, and an answer takes its time.
const clockAllowance = 10 * time.Second

// arrival is how long after it was sent a write that was given up may still take effect: Notion ends
// requests after 60 s.
const arrival = time.Minute + clockAllowance

// Policy holds the settings that the protocol depends on. Every daemon on a workspace must have
// the same Timeout, WriteWindow and Settle.
type Policy struct {
	// Timeout is the lease of a task that does not set its own.
	Timeout time.Duration
	// WriteWindow is the longest time from the sending of the pre-flight read
	// to the answer of the claim write.
	WriteWindow time.Duration
	// Settle is the wait between that answer and the verifying read.
	Settle time.Duration
	// OpenOnly leaves IN_PROGRESS tasks with a stale claim to the sweep.
	OpenOnly bool
	// Exclusive says that this daemon is the only claimer, so that Settle need
	// not exceed WriteWindow. With a Settle of zero the page is not read again
	// after a claim write whose answer shows all of it.
	Exclusive bool
	// Grace is how long a void mark stays before the task is reopened, and how long a holder
	// tolerates a suspected late write over its claim. It must be longer than the interval at
	// which holders check their claims plus the time that their requests may take.
	Grace time.Duration
	// Request is the longest time that a request may be on its way before it is given up; 0 if
	// that is not known. A write that was sent while its claim was live must have landed or
	// failed before anybody may override the claim.
	Request time.Duration
	// MaxLifetime is the longest life of a claim, renewals included; 0 for no limit.
	MaxLifetime time.Duration
	// MaxPerAgent is how many tasks an agent may have at a time; 0 for any number.
	MaxPerAgent int
	// MaxAttempts is how many tries at a task may fail before it becomes BLOCKED (see Try); 0
	// for no limit.
	MaxAttempts int
	// Todos says that a task is completed only once the to-dos on its page are ticked. Whoever
	// calls Finish sees to that.
	Todos bool
	// ReviewAll says that completed work is put up for review instead. Whoever calls Finish sees to
	// that.
	ReviewAll bool
	// Review and Failed say whether the board has those statuses.
	Review, Failed bool
	// Words are the board's, for what people are told; nil for the protocol's.
	Words *task.Words
	// NoNote says that the database has no property for the note.
	NoNote bool
}

// Validate refuses settings under which the protocol cannot keep its promise.
func (p Policy) Validate() error {
	switch {
	case p.WriteWindow <= 0:
		return fmt.Errorf("write window %v: must be positive", p.WriteWindow)
	case p.Settle < 0:
		return fmt.Errorf("settle %v: must not be negative", p.Settle)
	case p.Settle <= p.WriteWindow && !p.Exclusive:
		return fmt.Errorf("settle %v must be longer than the write window %v, or two agents could both be granted one task (exclusive lifts this for a daemon that is the only claimer)", p.Settle, p.WriteWindow)
	case p.Timeout < time.Minute:
		return fmt.Errorf("timeout %v: must be at least a minute, as Notion keeps dates to the minute", p.Timeout)
	case p.Timeout <= p.WriteWindow+p.Settle:
		return fmt.Errorf("timeout %v must be longer than write window and settle together (%v)", p.Timeout, p.WriteWindow+p.Settle)
	case p.Request > p.WriteWindow+p.Settle+clockAllowance && !p.Exclusive:
		return fmt.Errorf("a request of %v must not be longer than write window, settle and %v together (%v), or it could land on the claim of the next holder", p.Request, clockAllowance, p.WriteWindow+p.Settle+clockAllowance)
	case p.MaxLifetime < 0 || p.MaxPerAgent < 0 || p.MaxAttempts < 0 || p.Grace < 0:
		return fmt.Errorf("maximum lifetime %v, tasks per agent %d, attempts at a task %d and grace %v must not be negative", p.MaxLifetime, p.MaxPerAgent, p.MaxAttempts, p.Grace)
	}
	return nil
}

// MaxLease is the longest lease, whatever a task or a setting says. It is the same for
// all daemons: otherwise one would take what another still counts on.
const MaxLease = 24 * time.Hour

// LeaseOf returns the length of a lease on t.
func (p Policy) LeaseOf(t task.Task) time.Duration {
	if t.Timeout > 0 {
		return min(t.Timeout, MaxLease)
	}
	return min(p.Timeout, MaxLease)
}

// StaleAt returns the earliest moment, in Notion's time, at which a claim written at claimedAt
// may be overridden. Notion shows claimedAt cut to the minute, so it allows for the whole
// minute. The holder trusts its claim until claimedAt + lease; the write window, the settle
// wait and a clock allowance come on top, so that its last write is out of the way.
func (p Policy) StaleAt(claimedAt time.Time, lease time.Duration) time.Time {
	return claimedAt.Truncate(time.Minute).Add(time.Minute + lease + p.WriteWindow + p.Settle + clockAllowance)
}

// LeaseEnd returns the latest moment at which the lease shown by t can end for its holder; zero
// if t shows no claim with a lease.
func (p Policy) LeaseEnd(t task.Task) time.Time {
	if t.ClaimedBy == "" || !dated(t) {
		return time.Time{}
	}
	return t.ClaimedAt.Truncate(time.Minute).Add(time.Minute + p.LeaseOf(t))
}

// Over reports whether the lease shown by t has ended at now, so that the claim is stale, or
// soon will be.
func (p Policy) Over(t task.Task, now time.Time) bool {
	end := p.LeaseEnd(t)
	return !end.IsZero() && !now.Before(end)
}

// Stale reports whether the claim that t shows may be overridden at now.
func (p Policy) Stale(t task.Task, now time.Time) bool {
	return t.ClaimedBy != "" && dated(t) && now.After(p.StaleAt(t.ClaimedAt, p.LeaseOf(t)))
}

// outlives reports whether the claim that t shows cannot be overridden before a write sent at now
// must have arrived.
func (p Policy) outlives(t task.Task, now time.Time) bool { return !p.Stale(t, now.Add(arrival)) }

// refreshed returns h with the date and the lease on its page: others go by what was changed
// there.
func (p Policy) refreshed(h Hold, t task.Task) Hold {
	h.Task, h.Timeout = t, p.LeaseOf(t)
	since := h.ClaimedAt
	if !t.ClaimedAt.IsZero() {
		since = t.ClaimedAt
	}
	if since.Before(h.ClaimedAt.Truncate(time.Minute)) {
		h.ClaimedAt = since
	}
	h.StaleAt = p.StaleAt(since, p.LeaseOf(t))
	return h
}

// dated reports whether the date on t belongs to a claim of the agent that t names. It does not
// if a person put another name on a completed task and reopened it: then the date is that of
// the finished claim.
func dated(t task.Task) bool {
	tok := ParseToken(t.Token)
	return !t.ClaimedAt.IsZero() && (!tok.Done || tok.By == "" || tok.By == t.ClaimedBy)
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
