package daemon

import (
	"dibs/internal/alive"
	"dibs/internal/broker"
	"dibs/internal/server"
)

// cluster is who shares the journal, in the terms of the broker; nil with one of its own.
func (d *works) cluster() broker.Cluster {
	if d.shared == nil {
		return nil
	}
	return sharedDoor{d}
}

// machines are those of the members; nil with a journal of its own.
func (d *works) machines() *server.Machines {
	if d.shared == nil {
		return nil
	}
	return d.shared.machines
}

// processes are those of the members' machines, or of this one.
func (d *works) processes() alive.Processes {
	if d.shared == nil {
		return alive.Here{}
	}
	return d.shared.machines
}
