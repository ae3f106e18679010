package alive

import (
	"errors"
	"fmt"
)

// Process is a process of this machine. Its number alone does not say which one it is:
// numbers are used again.
type Process struct {
	ID int
	// Began tells it from others of that number, in no particular form.
	Began string
	// UID is the user that it runs as.
	UID int
}

// ErrNoProcess says that there is no process of that number.
var ErrNoProcess = errors.New("no such process")

// Of returns the process with that number. The error is ErrNoProcess, or that it cannot
// be known here.
func Of(id int) (Process, error) {
	if id <= 0 {
		return Process{}, fmt.Errorf("%d: %w", id, ErrNoProcess)
	}
	return processOf(id)
}

// Lives reports whether p is alive. One of which that cannot be known counts as alive.
func Lives(p Process) bool {
	now, err := processOf(p.ID)
	if err != nil {
		return !errors.Is(err, ErrNoProcess)
	}
	return now.Began == p.Began
}
