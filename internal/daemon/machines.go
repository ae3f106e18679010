package daemon

import (
	"dibs/internal/broker"
	"dibs/internal/claim/keepers"
	"dibs/internal/door/server"
)

// cluster returns the members for the broker; nil without a shared journal.
func (d *works) cluster() broker.Cluster {
	if d.shared == nil {
		return nil
	}
	return sharedDoor{d}
}

// machines returns the members' machines; nil without a shared journal.
func (d *works) machines() *server.Machines {
	if d.shared == nil {
		return nil
	}
	return d.shared.machines
}

// processes returns the processes of the members' machines, or of this one.
func (d *works) processes() keepers.Processes {
	if d.shared == nil {
		return keepers.Here{}
	}
	return d.shared.machines
}
