package alive

import (
	"errors"
	"fmt"
)

// Process is a process of a machine. Its number alone does not say which one it is:
// numbers are used again.
type Process struct {
	ID int
	// Began tells it from others of that number, in no particular form.
	Began string
	// UID is the user that it runs as.
	UID int
	// Member is the member of a cluster on whose machine it runs; empty without a cluster,
	// for this machine.
	Member string `json:",omitempty"`
}

// Life is whether a process is alive, as far as is known.
type Life int

// Unheard is the life of one on a machine that cannot be asked just now.
const (
	Unheard Life = iota
	Living
	Gone
)

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

// LifeOf tells whether a process of this machine is alive. One of which that cannot be known
// counts as alive.
func LifeOf(p Process) Life {
	now, err := processOf(p.ID)
	if err != nil && !errors.Is(err, ErrNoProcess) || err == nil && now.Began == p.Began {
		return Living
	}
	return Gone
}
