package task

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Status is the state of a task, by the protocol's names. The configuration maps a
// database's names to these.
type Status string

// The statuses of the protocol.
const (
	Open       Status = "OPEN"
	InProgress Status = "IN_PROGRESS"
	Blocked    Status = "BLOCKED"
	Completed  Status = "COMPLETED"
	Cancelled  Status = "CANCELLED"

	// Review and Failed are optional. Review: the work is done, and a person has to approve
	// it. Failed: it was tried without success. Nobody claims such a task, and its dependents
	// wait.
	Review Status = "REVIEW"
	Failed Status = "FAILED"

	// Unknown is a status that is not in the configuration, or none at all. Nobody claims such
	// a task.
	Unknown Status = "UNKNOWN"
)

// Finished reports whether work on the task is over: it is COMPLETED or CANCELLED.
func (s Status) Finished() bool { return s == Completed || s == Cancelled }

// Statuses lists the statuses that every board has, in the order of a task's life.
var Statuses = []Status{Open, InProgress, Blocked, Completed, Cancelled}

// Optional lists the statuses that a board may do without.
var Optional = []Status{Review, Failed}

// AllStatuses returns all statuses of the protocol, the optional ones last.
func AllStatuses() []Status { return slices.Concat(Statuses, Optional) }

// Priority ranks tasks; a lower value is more urgent.
type Priority int

// The priorities, most urgent first. The zero value means none.
const (
	Critical Priority = iota - 4
	High
	Medium
	Low
	None
)

var priorityNames = map[Priority]string{
	Critical: "critical", High: "high", Medium: "medium", Low: "low", None: "none",
}

// Priorities lists the priorities, most urgent first.
var Priorities = []Priority{Critical, High, Medium, Low, None}

func (p Priority) String() string { return priorityNames[p] }

// MarshalJSON writes the priority's name.
func (p Priority) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads a priority's name.
func (p *Priority) UnmarshalJSON(data []byte) error {
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return err
	}
	i := slices.IndexFunc(Priorities, func(known Priority) bool { return known.String() == name })
	if i < 0 {
		return fmt.Errorf("%q is not a priority", name)
	}
	*p = Priorities[i]
	return nil
}
