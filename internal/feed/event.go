// Package feed is what agents are told: what became of tasks and claims, in the
// order in which it was found out, each thing once. It is pure; the journal
// numbers the events and keeps them for a while.
//
// There are two sources. A task's change of state, whoever caused it, is the
// difference between the state that was told last and the one the mirror shows
// now (Diff). What happened to a claim is the protocol's own record (Of).
package feed

import (
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Kind is what an event says happened. Kinds are part of the contract.
type Kind string

// What happens to tasks.
const (
	Created    Kind = "created"    // new to the daemon: made, moved here, or shared
	Ready      Kind = "ready"      // OPEN, with nobody's name on it, and waiting for nothing any more
	Claimed    Kind = "claimed"    // Agent has it now
	Released   Kind = "released"   // Agent has it no longer, and the work is not done
	Reassigned Kind = "reassigned" // from Agent to Holder
	Completed  Kind = "completed"
	Cancelled  Kind = "cancelled"
	Blocked    Kind = "blocked"
	Review     Kind = "review" // the work is done, and a person is to decide
	Failed     Kind = "failed"
	Unblocked  Kind = "unblocked"
	Reopened   Kind = "reopened" // COMPLETED, CANCELLED, REVIEW or FAILED before
	Trashed    Kind = "trashed"  // or archived, moved away, or no longer shared
	Restored   Kind = "restored" // after having been trashed
	Edited     Kind = "edited"   // in the parts that Changed names
)

// What happens to claims that are held here, and to stale ones. Agent is whose
// claim it was, or is.
const (
	ClaimLost     Kind = "claim_lost"     // ended by somebody else; Detail says how, Holder who has the task
	LeaseExpiring Kind = "lease_expiring" // and ends at ExpiresAt unless it is renewed
	Swept         Kind = "swept"          // stale, and its task put back to OPEN
	Overridden    Kind = "overridden"     // stale, and its task taken over by Holder
	Conflict      Kind = "conflict"       // found overwritten by Holder, and put back in its place
)

// What happens to reservations of files and other things.
const (
	Reserved   Kind = "reserved"   // by Agent, until ExpiresAt; Patterns says what
	Unreserved Kind = "unreserved" // Agent has it no longer; Detail says why
)

// Gap is told to a reader who asks for events that are no longer kept.
const Gap Kind = "gap"

// The parts of a task that an Edited event names.
const (
	PartTitle        = "title"
	PartPriority     = "priority"
	PartTimeout      = "timeout"
	PartDependencies = "dependencies"
	PartStatus       = "status" // a change of status that is none of the other kinds
)

// Event is one thing that happened. Times are Notion's.
type Event struct {
	// ID is the place in the feed: later events have higher ids, across
	// restarts, and no id is used twice. It is zero until the event is stored.
	ID   int64     `json:"-"`
	At   time.Time `json:"at"` // when the daemon found out
	Kind Kind      `json:"kind"`

	Task     task.ID       `json:"task"`
	Title    string        `json:"title,omitempty"`
	URL      string        `json:"url,omitempty"`
	Status   task.Status   `json:"status,omitempty"` // since then
	Priority task.Priority `json:"priority"`

	// Agent is whom it concerns first: who has the task, or had it.
	Agent string `json:"agent,omitempty"`
	// By is as of claim.Event: the user who asked for it in no agent's name.
	By string `json:"by,omitempty"`
	// Holder is the other party, if there is one.
	Holder string `json:"holder,omitempty"`
	// Claim is Agent's claim, as far as it is known.
	Claim claim.ID `json:"claim,omitempty"`

	Changed   []string  `json:"changed,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Detail says why, in one line.
	Detail string `json:"detail,omitempty"`
	// Summary is what the agent said when it was done.
	Summary string `json:"summary,omitempty"`

	// Reservation is the id of one, Patterns what is reserved by it, and Shared whether
	// others may share that.
	Reservation string   `json:"reservation,omitempty"`
	Patterns    []string `json:"patterns,omitempty"`
	Shared      bool     `json:"shared,omitempty"`
}

// State is a task as agents are told of it.
type State struct {
	task.Task
	// Ready is whether the task can be claimed by anybody.
	Ready bool
}

// NewState returns the state of t, whose unfinished dependencies are blockers.
// It does not depend on the time: a task with a stale claim on it is not ready
// before the claim is taken off.
func NewState(t task.Task, blockers []task.ID) State {
	// At the zero time no claim is stale.
	d := claim.Decide(t, "", blockers, time.Time{}, claim.Policy{})
	return State{Task: t, Ready: t.Status == task.Open && d.Code == ""}
}

// holder is who has the task. The name on a finished task is history, as is one
// on a task that was reopened after its completion, unless it was put there since.
func (s State) holder() string {
	if s.Status.Finished() || s.marked() {
		return ""
	}
	if claim.ParseToken(s.Token).Done {
		return claim.Assignee(s.Task)
	}
	return s.ClaimedBy
}

// marked reports whether the task has the mark of a withdrawal or a sweep on it:
// nobody works under it, and it is about to be reopened.
func (s State) marked() bool { return claim.ParseToken(s.Token).Void }

// handedOut reports whether the task was set to OPEN with a claim on it: it was told then
// that the claim is over.
func (s State) handedOut() bool { return s.Status == task.Open && s.claim() != "" }

// claim is the claim that the task shows, if it shows one of our form.
func (s State) claim() claim.ID { return claim.ParseToken(s.Token).ID }

// holds is who has the task, and by which claim.
func (s State) holds() (agent string, id claim.ID) {
	if agent = s.holder(); agent != "" && !claim.ParseToken(s.Token).Done {
		id = s.claim()
	}
	return agent, id
}

// Unclaimed is what a task that is seen for the first time may be thought to have
// been before.
func (s State) Unclaimed() State {
	s.ClaimedBy, s.ClaimedAt, s.Token, s.Ready = "", time.Time{}, "", false
	if s.Status != task.Open && s.Status != task.Unknown && !s.Status.Finished() {
		s.Status = task.Open
	}
	return s
}
