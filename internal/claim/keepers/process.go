package keepers

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

// The lives. A process is Unheard if it cannot be seen, or its machine cannot be asked just now.
const (
	Unheard Life = iota
	Living
	Gone
)

// ErrNoProcess says that there is no process of that number.
var ErrNoProcess = errors.New("no such process")

// ErrUnseen says that there is one, which the system hides from this process.
var ErrUnseen = errors.New("it is there, but the daemon cannot see it: mount /proc without hidepid for the daemon, or set ProtectProc=default in its unit")

// Of returns the process with that number. The error is ErrNoProcess or ErrUnseen, or says that this
// system cannot tell.
func Of(id int) (Process, error) {
	if id <= 0 {
		return Process{}, fmt.Errorf("%d: %w", id, ErrNoProcess)
	}
	return processOf(id)
}

// LifeOf reports whether a process of this machine is alive.
func LifeOf(p Process) Life {
	now, err := processOf(p.ID)
	switch {
	case err == nil && now.Began == p.Began:
		return Living
	case err == nil || errors.Is(err, ErrNoProcess):
		return Gone
	}
	return Unheard
}
