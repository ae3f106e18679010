package task

import (
	"fmt"
	"strings"
)

// Status is the state of a task, by the names the protocol uses. The names a
// database uses are mapped to these by configuration.
type Status string

// The statuses of the protocol.
const (
	Open       Status = "OPEN"
	InProgress Status = "IN_PROGRESS"
	Blocked    Status = "BLOCKED"
	Completed  Status = "COMPLETED"
	Cancelled  Status = "CANCELLED"

	// Unknown is a status that the configuration does not name, or none at all.
	// Nobody claims such a task.
	Unknown Status = "UNKNOWN"
)

// Statuses lists the statuses of the protocol, in the order of a task's life.
var Statuses = []Status{Open, InProgress, Blocked, Completed, Cancelled}

// ParseStatus returns the status of that name, which must be exact.
func ParseStatus(s string) (Status, error) {
	for _, known := range Statuses {
		if s == string(known) {
			return known, nil
		}
	}
	names := make([]string, len(Statuses))
	for i, known := range Statuses {
		names[i] = string(known)
	}
	return "", fmt.Errorf("%q is not a status: want one of %s", s, strings.Join(names, ", "))
}

// Finished reports whether work on a task in this status is over.
func (s Status) Finished() bool { return s == Completed || s == Cancelled }
