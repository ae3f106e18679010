// Package inbox defines triggers: the things that agents should react to, each for one agent,
// in the order of importance; and which triggers news cause. It is pure; the journal stores
// triggers, and delivers each once.
package inbox

import (
	"cmp"
	"slices"
	"time"

	"dibs/internal/task"

	"github.com/oklog/ulid/v2"
)

// Type is what a trigger is about. Types are part of the contract.
type Type string

// The types of triggers.
const (
	ClaimLost      Type = "claim_lost"      // a claim of the agent's was ended by somebody else
	TaskOffered    Type = "task_offered"    // From offers a task: to be accepted or declined
	TaskAssigned   Type = "task_assigned"   // somebody put the agent's name on an open task
	Message        Type = "message"         // From says Text
	Comment        Type = "comment"         // From has commented on a task that the agent holds
	TaskFinished   Type = "task_finished"   // From has completed a task; for subscribers only
	TasksAvailable Type = "tasks_available" // there are Count tasks that can be claimed
)

// Types are all types, in the order of delivery.
var Types = []Type{ClaimLost, TaskOffered, TaskAssigned, Message, Comment, TaskFinished, TasksAvailable}

// Rank returns the place of a type in Types.
func (t Type) Rank() int { return slices.Index(Types, t) }

// Trigger is something that an agent should react to. Times are Notion's.
type Trigger struct {
	// ID is a ULID. It is unique to the trigger and its agent.
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Agent is the agent that it is for.
	Agent string    `json:"agent"`
	At    time.Time `json:"at"`

	// Task is the task that it is about, as it was then; without an id if there is none.
	Task task.Task `json:"task,omitzero"`
	// From is who caused it, if that is known.
	From string `json:"from,omitempty"`
	// Text is what was said, or the reason, as written: it may have several lines.
	Text string `json:"text,omitempty"`
	// Count is how many tasks are available.
	Count int `json:"count,omitempty"`

	// Key is the idempotency key: an agent gets one trigger for each key. It is empty if the
	// same cause cannot come again.
	Key string `json:"-"`
}

// Sort puts triggers into the order of delivery.
func Sort(triggers []Trigger) {
	slices.SortStableFunc(triggers, func(a, b Trigger) int { return cmp.Compare(a.Type.Rank(), b.Type.Rank()) })
}

// Everybody addresses a message to all agents.
const Everybody = task.EveryAgent

// MaxText is the longest text of a message, in bytes.
const MaxText = 16 << 10

// NewID mints the id of a trigger.
func NewID(at time.Time) string {
	return ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy()).String()
}

// Take is a poll for the triggers of an agent.
type Take struct {
	Agent string
	// Taker identifies the poll. A poll that is repeated gets the triggers that it already has,
	// and their visibility timeout starts again.
	Taker string
	// Process is the process that polls, in the caller's form; empty if it is not known.
	Process string
	Limit   int // 0 for no limit
	// Now is this machine's time, and At Notion's.
	Now, At time.Time
	// Visibility is the visibility timeout: how long a taken trigger may stay unacknowledged
	// before it is delivered again. Gone are the processes that have ended: what they took is
	// delivered again at once.
	Visibility time.Duration
	Gone       []string
	// Available is how many tasks the agent could claim. Anew says that it could claim none before,
	// although some were ready.
	Available int
	Anew      bool
	// New, if set, is called for an agent that has not polled before, or was forgotten since. If
	// it fails, the poll fails with its error and stores nothing.
	New func() error
	// Finished subscribes the agent to finished tasks.
	Finished bool
}

// Waiting describes an agent's inbox.
type Waiting struct {
	// Pending is set if there is a pending trigger other than for available tasks, and
	// Available if there is one for those.
	Pending, Available bool
	// Count is the number of pending triggers, without those for available tasks.
	Count int
	// Processes have taken triggers and not acknowledged them. Oldest is when the first
	// unacknowledged trigger was taken, by any poll; zero if there is none.
	Processes []string
	Oldest    time.Time
}

// Offer is a task that waits for one agent to accept or decline it. Times are Notion's.
type Offer struct {
	// ID is the id of its trigger.
	ID   string    `json:"id"`
	Task task.ID   `json:"task"`
	From string    `json:"from"`
	To   string    `json:"to"`
	At   time.Time `json:"at"`
	// Until is when the offer ends.
	Until time.Time `json:"until"`
}
