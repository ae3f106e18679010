package claim

import (
	"strings"
	"time"

	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// ID identifies one attempt to claim a task. It is a ULID, minted from Notion's
// time, and it is also the claim token written to Notion while the claim lives.
type ID string

// NewID mints an id that carries the millisecond of now.
func NewID(now time.Time) ID {
	return ID(ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String())
}

// ParseID reports whether s has the form of a claim id, and returns its
// canonical (upper-case) form.
func ParseID(s string) (ID, bool) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return "", false
	}
	return ID(u.String()), true
}

// The forms that a claim token takes on a page once its claim no longer lives.
const (
	voidPrefix = "void " // being withdrawn, see RunDue
	donePrefix = "done " // completed
)

// Token tells what a claim_token property says.
type Token struct {
	ID   ID   // the claim, empty if the text is not of our form
	Void bool // the claim is being withdrawn
	Done bool // the claim ended with the task completed
}

// ParseToken reads the text of a claim_token property.
func ParseToken(s string) Token {
	var t Token
	if rest, ok := strings.CutPrefix(s, voidPrefix); ok {
		s, t.Void = rest, true
	} else if rest, ok := strings.CutPrefix(s, donePrefix); ok {
		s, t.Done = rest, true
	}
	id, ok := ParseID(s)
	if !ok {
		return Token{}
	}
	t.ID = id
	return t
}

// State is where a claim stands in its life:
//
//	reserved → writing → held → finishing → ended
//	              ↓        ↘──────────────↗
//	          abandoned → voided → ended
type State string

// The states of a claim.
const (
	// Reserved: chosen here, nothing written to Notion yet.
	Reserved State = "reserved"
	// Writing: a claim write was or is about to be sent and is not verified.
	Writing State = "writing"
	// Held: granted to the agent.
	Held State = "held"
	// Finishing: the agent is done with the task; the write that says so is owed to Notion.
	Finishing State = "finishing"
	// Abandoned: never granted, but its write may be in Notion, or may get there yet.
	Abandoned State = "abandoned"
	// Voided: an abandoned claim marked void in Notion; reopening the task is next.
	Voided State = "voided"
	// Ended: over; Ending says how.
	Ended State = "ended"
)

// Reserves reports whether a claim in this state keeps its task from the other
// agents of the daemon. An abandoned attempt does not: what is left of it in
// Notion speaks for itself.
func (s State) Reserves() bool { return s != Abandoned && s != Voided && s != Ended }

// Ending is how a claim ended.
type Ending string

// The ways in which claims end.
const (
	EndNotGranted Ending = "not_granted" // denied, lost the race or withdrawn
	EndCompleted  Ending = "completed"
	EndFailed     Ending = "failed"
	EndBlocked    Ending = "blocked"
	EndReleased   Ending = "released"
	EndLost       Ending = "lost"       // taken, cleared or finished by somebody else
	EndOverridden Ending = "overridden" // stale, and taken over through this daemon
	EndSwept      Ending = "swept"      // stale, and reopened by this daemon's sweep
)

// Finish is what an agent says when it is done with a task.
type Finish struct {
	// As is one of EndCompleted, EndFailed, EndBlocked, EndReleased.
	As Ending `json:"as"`
	// Summary says what was done, or why not.
	Summary string `json:"summary,omitempty"`
	// Reopen puts a failed task back to OPEN instead of BLOCKED.
	Reopen bool `json:"reopen,omitempty"`
	// At is when the agent said so, in Notion's time.
	At time.Time `json:"at"`
}

// Claim is an agent's hold on a task, or its attempt to get one. All times are
// Notion's.
type Claim struct {
	ID    ID        `json:"id"`
	Agent string    `json:"agent"`
	Task  task.Task `json:"task"` // as last read or written here
	State State     `json:"state"`

	// Reserved is when the attempt began.
	Reserved time.Time `json:"reserved_at"`
	// Started is when the claim was granted.
	Started time.Time `json:"started_at,omitzero"`
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

	// Override is set when the claim was taken from a stale one.
	Override bool `json:"override,omitempty"`
	// Former is who held the task before, if it was overridden.
	Former string `json:"former,omitempty"`

	Finish *Finish `json:"finish,omitempty"`

	// Suspect is when another token of our form was first seen over this claim.
	Suspect time.Time `json:"suspect_at,omitzero"`
	// Due is when the next step of an abandoned, voided or finishing claim is to be taken.
	Due time.Time `json:"due_at,omitzero"`
	// Clearing is set once the write that takes a voided claim off its page may
	// have been sent.
	Clearing bool `json:"clearing,omitempty"`

	Ending Ending    `json:"ending,omitempty"`
	Ended  time.Time `json:"ended_at,omitzero"`
	// Detail says in one line why the claim ended, where that needs saying.
	Detail string `json:"detail,omitempty"`
}

// ExpiresAt is until when the agent may trust its claim: the lease's end, which
// lies before StaleAt by the allowance of Policy.
func (c Claim) ExpiresAt() time.Time { return c.ClaimedAt.Add(c.Timeout) }
