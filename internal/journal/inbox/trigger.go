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
