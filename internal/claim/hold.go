package claim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"dibs/internal/task"
)

// State is where a hold stands in its life; the diagram is in the package documentation.
// In every state but Ended a hold keeps its task from the other agents of the daemon.
type State string

// The states of a hold.
const (
	// Reserved: chosen here, nothing written to Notion yet.
	Reserved State = "reserved"
	// Writing: a claim write was or is about to be sent and is not verified.
	Writing State = "writing"
	// Held: granted to the agent.
	Held State = "held"
	// Finishing: the agent is done with the task; Notion has yet to be told.
	Finishing State = "finishing"
	// Ended: over; Ending says how.
	Ended State = "ended"
)

type Ending string

// The ways in which claims end.
const (
	EndNotGranted Ending = "not_granted" // denied, lost the race or withdrawn
	EndCompleted  Ending = "completed"
	EndFailed     Ending = "failed"
	EndBlocked    Ending = "blocked"
	EndReleased   Ending = "released"
	EndReview     Ending = "review"     // the work is done, and a person is to decide
	EndLost       Ending = "lost"       // taken, cleared or finished by somebody else
	EndOverridden Ending = "overridden" // stale, and taken over through this daemon
	EndSwept      Ending = "swept"      // stale, and reopened by this daemon's sweep
)

// Finish is what an agent, or somebody in its place, says when it is done with a task.
type Finish struct {
	// As is one of EndCompleted, EndReview, EndFailed, EndBlocked, EndReleased.
	As Ending `json:"as"`
	// By is who releases the claim in place of its agent, by the name that was given; empty if
	// the agent does. To the agent that is a loss. User is the user of the machine who asked
	// for that, see Fact.By.
	By   string `json:"by,omitempty"`
	User string `json:"user,omitempty"`
	// Summary says what was done, or why not.
	Summary string `json:"summary,omitempty"`
	// Evidence is what shows that the work was done: commits, pull requests, commands and how they
	// ended.
	Evidence []string `json:"evidence,omitempty"`
	// Files are the files that the agent changed, as far as it said so.
	Files []string `json:"files,omitempty"`
	// Reopen puts a failed task back to OPEN instead of FAILED, or BLOCKED.
	Reopen bool `json:"reopen,omitempty"`
	// History is set instead of Reopen once the task has used up its tries: the task becomes
	// BLOCKED, and History says who tried.
	History string `json:"history,omitempty"`
	// To is the agent to whom a release offers the task; the task stays assigned to it.
	To string `json:"to,omitempty"`
	// For is how long the offer waits for an answer.
	For time.Duration `json:"for,omitempty"`
	// Answer is set for a release that ends an offer of From, or an assignment.
	Answer Answer `json:"answer,omitempty"`
	From   string `json:"from,omitempty"`
	// Unheard is set if the agent never heard that it was granted: the daemon, or the agent's own
	// program, released the claim.
	Unheard bool `json:"unheard,omitempty"`
	// Died is set if the daemon released the claim itself, because what kept it alive is gone.
	Died bool `json:"died,omitempty"`
	// Comment also puts the summary on the task's page as a comment, once the claim has ended
	// that way. Mention is the id of the Notion user whom the comment addresses, if any.
	Comment bool   `json:"comment,omitempty"`
	Mention string `json:"mention,omitempty"`
	// Ask makes the summary of a blocked task a question to people: the comment is made in any
	// case, and the agent is told when somebody answers.
	Ask bool `json:"ask,omitempty"`
	// At is when the agent said so, in Notion's time.
	At time.Time `json:"at"`
}

// Answer is how an offer ended that was not accepted.
type Answer string

// The answers.
const (
	Declined Answer = "declined"
	Expired  Answer = "expired" // there was none in time
)

// Lease says how long a claim lasts, and when its agent was last alive. The lease is the page's.
type Lease struct {
	// ClaimedAt is the beginning of the lease: the exact time of the claim write, or of the
	// last renewal that Notion acknowledged.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// Requested is how long the agent asked for the claim to be kept without hearing from it; 0 if
	// it did not ask.
	Requested time.Duration `json:"kept,omitempty"`
	Borrowed
	// Timeout is the length of the lease: that of the page.
	Timeout time.Duration `json:"timeout"`
	// StaleAt is the earliest moment at which anybody may override the claim.
	StaleAt time.Time `json:"stale_at,omitzero"`
	// Heartbeat is when the agent last showed that it is alive.
	Heartbeat time.Time `json:"heartbeat_at,omitzero"`
	// Warned is the end of the lease for which the agent was last warned.
	Warned time.Time `json:"warned_at,omitzero"`
}

// Borrowed is what a record of an older version has of its lease. Those versions wrote the length
// that an agent asked for into claim_timeout_minutes, and put the task's own back when its claim
// ended. Nothing of it is written any more; what such a ledger still owes is repaid.
type Borrowed struct {
	Asked time.Duration `json:"requested,omitempty"` // what the agent asked for; 0 for nothing
	Own   time.Duration `json:"own,omitempty"`       // the task's own length; 0 if it had none
}

// Hold is an agent's claim on a task, from its reservation to its end. All times are Notion's.
type Hold struct {
	ID    ID        `json:"id"`
	Agent string    `json:"agent"`
	Task  task.Task `json:"task"` // as last read or written here
	State State     `json:"state"`

	// Reserved is when the attempt began.
	Reserved time.Time `json:"reserved_at"`
	// Started is when the claim was granted.
	Started time.Time `json:"started_at,omitzero"`
	Lease

	// Noted is the latest claimed_at that a renewal was to write, whatever became of that
	// write.
	Noted time.Time `json:"noted_at,omitzero"`
	// Assigned is set if the task was assigned to the agent when it claimed it. An attempt that
	// fails leaves the assignment in place.
	Assigned bool `json:"assigned,omitempty"`
	// OfferedBy is the agent that had offered it the task, until OfferedUntil; empty if none had.
	OfferedBy    string    `json:"offered_by,omitempty"`
	OfferedUntil time.Time `json:"offered_until,omitzero"`
	// Brief is set if the task is only claimed to be given up at once.
	Brief bool `json:"brief,omitempty"`
	// Fence is the number of this claim's hold on the task: greater than that of every
	// earlier hold. See Ledger.Reserve.
	Fence int64 `json:"fence,omitempty"`
	// Former is the agent whose stale claim this one overrode; empty if it overrode none.
	Former string `json:"former,omitempty"`
	// Touches are the patterns of what the work touches, as the task named them when it was claimed:
	// they are reserved for as long as the claim is held. Repository is the place that they are in,
	// see reserve.Spot, on the machine of Member; empty if it is not known.
	Touches    []string `json:"touches,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Member     string   `json:"member,omitempty"`
	// Progress is what the agent last said of the work, in one line, see Report.
	Progress string `json:"progress,omitempty"`

	// Used is what the agent used so far, as it reported.
	Used Usage `json:"used,omitzero"`

	// Finish is what was said at the end of the work; nil before that. See also Said.
	Finish *Finish `json:"finish,omitempty"`

	// Suspect is when another claim token was first seen over this claim; zero if none is.
	Suspect time.Time `json:"suspect_at,omitzero"`
	// Due is when a finishing hold takes its next step, when a held one under suspicion is looked
	// at again, or when it is tried again to give one back that is kept no longer.
	Due time.Time `json:"due_at,omitzero"`

	Ending Ending    `json:"ending,omitempty"`
	Ended  time.Time `json:"ended_at,omitzero"`
	// Detail says in one line why the claim ended, where that needs saying.
	Detail string `json:"detail,omitempty"`
	// LostTo had the task after the claim was lost or overridden; empty if nobody did, or if it
	// is not known.
	LostTo string `json:"lost_to,omitempty"`
}

// Taken reports whether somebody else ended a claim that the agent had been granted. Notion may
// have yet to be told.
func (c Hold) Taken() bool {
	if c.State == Finishing {
		return c.Finish != nil && c.Finish.By != ""
	}
	return c.State == Ended && !c.Started.IsZero() && (c.Ending == EndLost || c.Ending == EndOverridden || c.Ending == EndSwept)
}

// Said returns what the agent itself said at the end; nil if it said nothing.
func (c Hold) Said() *Finish {
	if c.Finish == nil || c.Finish.By != "" {
		return nil
	}
	return c.Finish
}

// Ending returns how a claim ends by f.
func (f Finish) Ending() Ending {
	if f.By != "" {
		return EndLost
	}
	return f.As
}

// Taking says in one line who takes the task from the agent, and why.
func (f Finish) Taking() string {
	return strings.TrimSuffix(f.signature("")+" took the task back: "+task.OneLine(f.Summary, -1), ": ")
}

// Unkept reports whether the daemon itself takes the task back, see Lease.KeptUntil.
func (f Finish) Unkept() bool { return f.By == Sweeper && f.User == "" }

// signature returns the name under the note: the agent's, or that of whoever acts in its place,
// with the user of the machine, unless that is the same name.
func (f Finish) signature(agent string) string {
	if f.By == "" || f.User == "" || f.User == task.UserSignature(f.By) {
		return cmp.Or(f.By, agent)
	}
	return fmt.Sprintf("%s (%s)", f.By, f.User)
}

// Loss is a claim that was taken from its agent.
type Loss struct {
	Hold
	// Told is set once an answer told the agent of the loss.
	Told bool
	// Last is set if the agent has been granted nothing since.
	Last bool
}

// KeptUntil returns until when the claim is kept if nothing more is heard of the agent; zero if it
// did not ask for that. Until then the lease is renewed; then the claim is given back.
func (l Lease) KeptUntil() time.Time {
	if l.Requested == 0 {
		return time.Time{}
	}
	return l.Heartbeat.Add(l.Requested)
}

// ExpiresAt returns until when the agent may trust its claim: the end of the lease, or KeptUntil if
// that comes first. It lies before StaleAt by the allowance of Policy.
func (l Lease) ExpiresAt() time.Time {
	end := l.ClaimedAt.Add(l.Timeout)
	if until := l.KeptUntil(); !until.IsZero() && until.Before(end) {
		return until
	}
	return end
}

// Patience returns how long the claim lasts without a sign of life.
func (l Lease) Patience() time.Duration {
	if l.Requested == 0 {
		return l.Timeout
	}
	return min(l.Timeout, l.Requested)
}

// ended returns h as ended.
func (h Hold) ended(as Ending, at time.Time, detail string) Hold {
	h.State, h.Ending, h.Ended, h.Detail = Ended, as, at, detail
	h.Due, h.Suspect = time.Time{}, time.Time{}
	return h
}

// attempting reports whether h is an attempt without an outcome so far.
func (h Hold) attempting() bool { return h.State == Reserved || h.State == Writing }

// isWork reports whether f reports work that was done or tried.
func (f Finish) isWork() bool { return f.As == EndCompleted || f.As == EndReview || f.As == EndFailed }

// Usage is what an agent used for a claim since it was granted, as far as the agent reported it.
// Every report is such a total: of several, the larger numbers count, so that a report which is
// repeated, late or lost counts nothing twice.
type Usage struct {
	Tokens int64 `json:"tokens,omitempty"`
	// Micros is money, in millionths of a US dollar.
	Micros int64 `json:"micros,omitempty"`
	// At is when the numbers last grew, in Notion's time.
	At time.Time `json:"at,omitzero"`
}

// None reports whether nothing was used.
func (u Usage) None() bool { return u.Tokens == 0 && u.Micros == 0 }

// Add returns the sum of u and more.
func (u Usage) Add(more Usage) Usage {
	return Usage{Tokens: u.Tokens + more.Tokens, Micros: u.Micros + more.Micros}
}

// grown returns u after a report that came at a time; false if it says nothing new.
func (u Usage) grown(report Usage, at time.Time) (Usage, bool) {
	next := Usage{Tokens: max(u.Tokens, report.Tokens), Micros: max(u.Micros, report.Micros), At: at}
	return next, next.Tokens > u.Tokens || next.Micros > u.Micros
}

// Dollars returns an amount in millionths of a US dollar, to the cent or finer.
func Dollars(micros int64) string {
	text := fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
	cents := len(text) - 4
	return text[:cents] + strings.TrimRight(text[cents:], "0")
}
