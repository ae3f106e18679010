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

// life tells whether a process is alive.
func (d *works) life(p alive.Process) alive.Life {
	if d.shared == nil {
		return alive.LifeOf(p)
	}
	return d.shared.machines.Life(p)
}

// lives reports whether a process is alive, as far as is known.
func (d *works) lives(p alive.Process) bool { return d.life(p) != alive.Gone }

// agentsAt says which names the users of another member may go by; nil with a journal of its
// own.
func (d *works) agentsAt() func(member string) ([]broker.Agent, bool) {
	if d.shared == nil {
		return nil
	}
	return d.shared.agentsAt
}
