package alive

import (
	"errors"
	"fmt"
)

// Process identifies a process of a machine. Its number alone does not, because numbers are used
// again.
type Process struct {
	ID int
	// Began identifies it among processes of that number. Its form has no meaning.
	Began string
	// UID is the user that it runs as.
	UID int
	// Member is the member of a cluster on whose machine it runs; empty without a cluster.
	Member string `json:",omitempty"`
}

// Life says whether a process is alive.
type Life int

// The lives. A process is Unheard if its machine cannot be asked just now.
const (
	Unheard Life = iota
	Living
	Gone
)

// ErrNoProcess says that there is no process of that number.
var ErrNoProcess = errors.New("no such process")

// Of returns the process with that number. The error is ErrNoProcess, or says that this system
// cannot tell.
func Of(id int) (Process, error) {
	if id <= 0 {
		return Process{}, fmt.Errorf("%d: %w", id, ErrNoProcess)
	}
	return processOf(id)
}

// LifeOf reports whether a process of this machine is alive. It counts as alive if the system cannot
// tell.
func LifeOf(p Process) Life {
	now, err := processOf(p.ID)
	if err != nil && !errors.Is(err, ErrNoProcess) || err == nil && now.Began == p.Began {
		return Living
	}
	return Gone
}
