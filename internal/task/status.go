package task

import (
	"fmt"
	"slices"
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

	// Review and Failed are for boards that have them: the work is done and a person has
	// yet to say so, and it was tried and did not come off. Nobody claims such a task, and
	// what depends on it waits.
	Review Status = "REVIEW"
	Failed Status = "FAILED"

	// Unknown is a status that the configuration does not name, or none at all.
	// Nobody claims such a task.
	Unknown Status = "UNKNOWN"
)

// Statuses lists the statuses that every board has, in the order of a task's life.
var Statuses = []Status{Open, InProgress, Blocked, Completed, Cancelled}

// Optional lists those that a board may do without.
var Optional = []Status{Review, Failed}

// AllStatuses returns all statuses of the protocol, the optional ones last.
func AllStatuses() []Status { return slices.Concat(Statuses, Optional) }

// ParseStatus returns the status of that name, which must be exact.
func ParseStatus(s string) (Status, error) {
	all := AllStatuses()
	names := make([]string, len(all))
	for i, known := range all {
		if s == string(known) {
			return known, nil
		}
		names[i] = string(known)
	}
	return "", fmt.Errorf("%q is not a status: want one of %s", s, strings.Join(names, ", "))
}

// Finished reports whether work on a task in this status is over.
func (s Status) Finished() bool { return s == Completed || s == Cancelled }
