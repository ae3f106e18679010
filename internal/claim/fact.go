package claim

import (
	"time"

	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Kind is what a fact says happened. Kinds are part of the contract.
type Kind string

// What agents and the daemon do about claims, messages and reservations.
const (
	KindGranted    Kind = "granted"    // an attempt won
	KindDenied     Kind = "denied"     // an attempt did not; Code says why
	KindWithdrawn  Kind = "withdrawn"  // an abandoned attempt was taken back out of Notion
	KindRenewed    Kind = "renewed"    // the lease was written anew
	KindOrphaned   Kind = "orphaned"   // work finished for a claim that had been lost
	KindLost       Kind = "lost"       // somebody else took, cleared or finished the task
	KindOverridden Kind = "overridden" // a stale claim, taken over by Agent from Holder
	KindSwept      Kind = "swept"      // a stale claim of Holder, reopened
	KindConflict   Kind = "conflict"   // a live claim was found overwritten and was repaired
	KindContested  Kind = "contested"  // the refusals decided here against one claim, summed up at its end
	KindExpiring   Kind = "expiring"   // the lease is about to end, and was not renewed
	KindCleared    Kind = "cleared"    // what a page still showed of a claim that is over was taken off it
	KindMessage    Kind = "message"    // from Agent to Holder, or to all: Detail says what
	KindReserved   Kind = "reserved"   // files or other things were reserved: Detail says which
	KindUnreserved Kind = "unreserved" // a reservation is over: Detail says which, and why
	KindAdded      Kind = "added"      // the task was made, by Agent or By
	KindCommented  Kind = "commented"  // Agent said something to people on the task's page: Summary
)

// What an agent does with its task, and what is seen of a task on the board, whoever did it.
// These are two facts: the second may come later, or alone.
const (
	KindReleased  Kind = "released"  // given back, and the work is not done
	KindCompleted Kind = "completed" // the work is done
	KindFailed    Kind = "failed"    // the work was tried and failed
	KindBlocked   Kind = "blocked"   // the work cannot go on
	KindReview    Kind = "review"    // the work is done, and a person is to decide
	KindReopened  Kind = "reopened"  // put back to OPEN by Agent, or by a person, By, if that is empty
)

// What is only seen of a task on the board.
const (
	KindCreated    Kind = "created"    // new to the daemon: made, moved here, or shared
	KindReady      Kind = "ready"      // OPEN, with nobody's name on it, and waiting for nothing any more
	KindClaimed    Kind = "claimed"    // Agent has it now
	KindReassigned Kind = "reassigned" // from Agent to Holder
	KindCancelled  Kind = "cancelled"
	KindUnblocked  Kind = "unblocked"
	KindTrashed    Kind = "trashed"  // or archived, moved away, or no longer shared
	KindRestored   Kind = "restored" // after having been trashed
	KindEdited     Kind = "edited"   // in the parts that Changed names
)

// Fact is one thing that happened to a task, a claim, an attempt or a reservation. It is on
// record once, stored with the change that makes it true. What people and agents see are views
// of facts: the local record (`dibs log`), entries of the Notion logs, events, triggers, history.
type Fact struct {
	// ID is a ULID, and the entry id in Notion's logs.
	ID string `json:"id"`
	// Told is the place among what agents are told: later facts have higher numbers, across
	// restarts, and none is used twice. It is zero for what they are not told.
	Told int64     `json:"-"`
	At   time.Time `json:"at"` // Notion's time
	Kind Kind      `json:"kind"`

	Task  task.ID `json:"task"`
	Title string  `json:"title,omitempty"`
	URL   string  `json:"url,omitempty"`
	// Status and Priority are the task's since then, where agents are told.
	Status   task.Status   `json:"status,omitempty"`
	Priority task.Priority `json:"priority,omitempty"`

	// Agent is whom it concerns first: who did it, who has the task, or had it.
	Agent string `json:"agent,omitempty"`
	// Claim is Agent's claim, as far as it is known.
	Claim ID `json:"claim,omitempty"`
	// By is the user of this machine who asked for it where no agent's name was given, as
	// the kernel names it: task.UserSignature. It is empty for what dibs does by itself.
	By string `json:"by,omitempty"`

	// Code says why an attempt was denied.
	Code Code `json:"code,omitempty"`
	// Holder is the other party: who has the task, had it, or took it.
	Holder string `json:"holder,omitempty"`
	// Former is Holder's claim, if it was overridden.
	Former ID `json:"former,omitempty"`
	// Against is the claim, held here, that a denial decided here ran into.
	Against ID `json:"against,omitempty"`
	// Remote is set when Notion was asked, or written to, for this.
	Remote bool `json:"remote,omitempty"`
	// Detail says why, in one line.
	Detail string `json:"detail,omitempty"`
	// Changed names the parts of a task that were edited.
	Changed []string `json:"changed,omitempty"`

	// Settings are those that a grant was made under, as Settings.String has them.
	Settings string `json:"settings,omitempty"`
	// Started, Finished and Summary describe finished work.
	Started  time.Time `json:"started_at,omitzero"`
	Finished time.Time `json:"finished_at,omitzero"`
	Summary  string    `json:"summary,omitempty"`
	// Tried is what the fact means for the tries at the task, see Try.
	Tried Tried `json:"tried,omitempty"`
	// Comment and Mention are as of the Finish.
	Comment bool   `json:"comment,omitempty"`
	Mention string `json:"mention,omitempty"`
	// Asked is set if Summary is a question to people, which the agent wants to be told
	// the answer of.
	Asked bool `json:"asked,omitempty"`
	// Expires is when the lease of an expiring claim ends, or that of the claim that an
	// attempt was denied for, or the offer that a release makes, or a reservation.
	Expires time.Time `json:"expires_at,omitzero"`

	// Reservation is the id of one, Patterns what is reserved by it, and Shared whether
	// others may share that.
	Reservation string   `json:"reservation,omitempty"`
	Patterns    []string `json:"patterns,omitempty"`
	Shared      bool     `json:"shared,omitempty"`

	// Count and Names sum up the refusals of a contested claim. Of a denial, Count is
	// how often it happened, if more than once, and of reservations how many it sums up.
	Count int      `json:"count,omitempty"`
	Names []string `json:"names,omitempty"`
}

// NewFactID mints the id of a fact, which carries the millisecond of now.
func NewFactID(now time.Time) string {
	return ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String()
}

// Log names where a fact becomes an entry: a Notion log database, or the comments of
// the tasks.
type Log string

// The logs.
const (
	MeshLog Log = "mesh" // Mesh Communication Log: claim attempts, messages between agents
	TaskLog Log = "task" // Agent Task Log: finished work
	// Comments are those on the pages of tasks: what agents say to people.
	Comments Log = "comments"
)

// Logs says which Notion logs the fact becomes an entry of. Attempts refused
// here without asking Notion, renewals and warnings stay in the local record.
func (e Fact) Logs() []Log {
	logs := e.databases()
	if e.Comment {
		logs = append(logs, Comments)
	}
	return logs
}

// databases are those of the logs that are databases.
func (e Fact) databases() []Log {
	switch e.Kind {
	case KindCompleted, KindReview, KindOrphaned:
		return []Log{TaskLog}
	case KindFailed:
		return []Log{MeshLog, TaskLog}
	case KindRenewed, KindExpiring, KindAdded, KindCommented:
		return nil
	case KindDenied, KindReserved, KindUnreserved:
		if !e.Remote {
			return nil
		}
	}
	return []Log{MeshLog}
}

// Contested sums up the denials that were decided here against h: how many
// there were, and the names of the agents, each once.
func Contested(h Hold, at time.Time, count int, names []string) Fact {
	e := h.fact(KindContested, at)
	e.Count, e.Names = count, names
	return e
}

// fact starts a fact about c.
func (c Hold) fact(kind Kind, at time.Time) Fact {
	return Fact{
		ID: NewFactID(at), At: at, Kind: kind,
		Task: c.Task.ID, Title: c.Task.Title, URL: c.Task.URL,
		Agent: c.Agent, Claim: c.ID,
	}
}
