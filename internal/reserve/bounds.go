package reserve

import (
	"fmt"
	"time"
)

// The largest number of reserved patterns: of an agent, of a user under all names, and of all.
// Every pattern makes every request a little slower.
const (
	maxOfAgent = 256
	maxOfUser  = 1024
	maxOfAll   = 4096
)

// The rate of new reservations of a user: burst at once, and then one in every. Each leaves lines in
// the record.
const (
	burst = 200
	every = 5 * time.Second
)

// full returns a *Full if a new reservation would be too many. changing is locked.
func (b *Book) full(r Reservation, now time.Time) error {
	ofAgent, ofUser, all := 0, 0, 0
	for _, e := range b.live {
		all += len(e.Targets)
		if e.Agent == r.Agent {
			ofAgent += len(e.Targets)
		}
		if e.UID == r.UID && e.Member == r.Member {
			ofUser += len(e.Targets)
		}
	}
	n := len(r.Targets)
	switch {
	case ofAgent+n > maxOfAgent:
		return &Full{Detail: fmt.Sprintf("%s has %d patterns reserved, of at most %d: give some back with dibs unreserve, or reserve folders in the place of files", r.Agent, ofAgent, maxOfAgent)}
	case ofUser+n > maxOfUser:
		return &Full{Detail: fmt.Sprintf("the user of this agent has %d patterns reserved under all names, of at most %d: give some back with dibs unreserve", ofUser, maxOfUser)}
	case all+n > maxOfAll:
		return &Full{Detail: fmt.Sprintf("%d patterns are reserved by all agents, of at most %d: try again when some were given back", all, maxOfAll)}
	}
	if wait := b.made.Wait(r.UID, now); wait > 0 {
		return &Full{Detail: fmt.Sprintf("too many reservations were made by the user of this agent: reserve more patterns at a time, and renew in the place of making new ones; try again in %v", wait.Round(time.Second)), RetryAfter: wait}
	}
	return nil
}
