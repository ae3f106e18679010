package claim

import (
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
	// Finishing: the agent is done with the task; the write that says so is owed to Notion.
	Finishing State = "finishing"
	// Ended: over; Ending says how.
	Ended State = "ended"
)

// Ending is how a claim ended.
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

// Finish is what an agent says when it is done with a task.
type Finish struct {
	// As is one of EndCompleted, EndReview, EndFailed, EndBlocked, EndReleased.
	As Ending `json:"as"`
	// Summary says what was done, or why not.
	Summary string `json:"summary,omitempty"`
	// Reopen puts a failed task back to OPEN instead of FAILED, or BLOCKED.
	Reopen bool `json:"reopen,omitempty"`
	// History is set, instead of Reopen, once the task was tried as often as it may be: it
	// becomes BLOCKED, and this says who tried.
	History string `json:"history,omitempty"`
	// To, of a release, is the agent that the task is offered to: it stays assigned to
	// that one.
	To string `json:"to,omitempty"`
	// For is how long the offer waits for an answer.
	For time.Duration `json:"for,omitempty"`
	// Unheard is set if it was not the agent that said so: it never heard that the task
	// was granted to it.
	Unheard bool `json:"unheard,omitempty"`
	// Comment puts the summary on the task's page as a comment, too, once the claim has
	// ended that way. Mention is the id of the Notion user whom it is for, if there is one.
	Comment bool   `json:"comment,omitempty"`
	Mention string `json:"mention,omitempty"`
	// Ask, of a blocked one, says that the summary is a question to people: the comment
	// is made in any case, and the agent is told when somebody answers.
	Ask bool `json:"ask,omitempty"`
	// At is when the agent said so, in Notion's time.
	At time.Time `json:"at"`
}

// Lease is how long a claim lasts, and how sure it is that its agent lives.
type Lease struct {
	// ClaimedAt is the lease's beginning: the exact time of the claim write or
	// of the last renewal that Notion acknowledged.
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// Requested is the lease length that the agent asked for; 0 if it did not.
	Requested time.Duration `json:"requested,omitempty"`
	// Own is the lease length that the task set by itself before Requested took
	// its place; 0 if it set none.
	Own time.Duration `json:"own,omitempty"`
	// Timeout is the lease's length: what was asked for, but never more than
	// others grant who read the task.
	Timeout time.Duration `json:"timeout"`
	// StaleAt is the earliest moment at which anybody may override the claim.
	StaleAt time.Time `json:"stale_at,omitzero"`
	// Heartbeat is when the agent last showed that it is alive.
	Heartbeat time.Time `json:"heartbeat_at,omitzero"`
	// Warned is the end of the lease that the agent was warned of last.
	Warned time.Time `json:"warned_at,omitzero"`
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

	// Noted is the latest claimed_at that was to be written for the claim after its first one,
	// whatever became of that.
	Noted time.Time `json:"noted_at,omitzero"`
	// Assigned is set if the task was assigned to the agent when it claimed it. An attempt
	// that comes to nothing leaves that as it was.
	Assigned bool `json:"assigned,omitempty"`
	// Fence is the number of this claim's hold on the task: greater than that of every
	// earlier hold. See Ledger.Reserve.
	Fence int64 `json:"fence,omitempty"`
	// Former is whose stale claim this one has overridden, if it has.
	Former string `json:"former,omitempty"`

	// Finish is what the agent said when it was done, if it was.
	Finish *Finish `json:"finish,omitempty"`

	// Suspect is when another token of our form was first seen over this claim.
	Suspect time.Time `json:"suspect_at,omitzero"`
	// Due is when the next step of a finishing hold is to be taken, and when a held one
	// under suspicion is looked at again.
	Due time.Time `json:"due_at,omitzero"`

	Ending Ending    `json:"ending,omitempty"`
	Ended  time.Time `json:"ended_at,omitzero"`
	// Detail says in one line why the claim ended, where that needs saying.
	Detail string `json:"detail,omitempty"`
	// LostTo is who had the task after the claim was lost or overridden; empty if
	// nobody did, or it is not known.
	LostTo string `json:"lost_to,omitempty"`
}

// Taken reports whether the agent was granted the claim and somebody else ended it.
func (c Hold) Taken() bool {
	return c.State == Ended && !c.Started.IsZero() && (c.Ending == EndLost || c.Ending == EndOverridden || c.Ending == EndSwept)
}

// Loss is a claim that was taken from its agent.
type Loss struct {
	Hold
	// Told is set once an answer to the agent has named the loss.
	Told bool
	// Last is set if the agent was granted nothing since.
	Last bool
}

// ExpiresAt is until when the agent may trust its claim: the lease's end, which
// lies before StaleAt by the allowance of Policy.
func (l Lease) ExpiresAt() time.Time { return l.ClaimedAt.Add(l.Timeout) }
