package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// Find returns the claim of that id in any state, or ErrUnknownClaim. It asks the ledger only
// for claims that have ended.
func (c *Claimer) Find(ctx context.Context, id ID) (Hold, error) {
	if cl, ok := c.book.get(id); ok {
		return cl, nil
	}
	return c.ledger.Hold(ctx, id)
}

// Claims returns the agent's claims in state Held or Finishing, oldest first; everybody's if
// agent is empty.
func (c *Claimer) Claims(agent string) []Hold { return c.book.of(agent) }

// Holding returns the number of held claims.
func (c *Claimer) Holding() int { return c.book.held() }

// Finishing returns the claims whose agents are done while Notion has yet to be told, in the
// order in which the agents said so.
func (c *Claimer) Finishing() []Hold { return c.book.until(c.book.finishes, forever) }

// On returns the claim that keeps a task from the other agents of this daemon; false if there
// is none. A held claim may have gone stale, see Lease.StaleAt.
func (c *Claimer) On(id task.ID) (Hold, bool) {
	var last Hold
	found := false
	for _, cl := range c.book.on(id) {
		last, found = cl, true // the last one took the task over
	}
	return last, found
}

// Mark returns the live mark of that id; false if there is none. The mark of an abandoned
// attempt has the id of its claim.
func (c *Claimer) Mark(id ID) (Mark, bool) { return c.book.mark(id) }

// forever is later than anything.
var forever = time.Unix(1<<40, 0)

// Between calls f with those of ids that no call of c is working on, and keeps all others off
// them until f returns. f must not call c.
func (c *Claimer) Between(ids []task.ID, f func(idle []task.ID) error) error {
	idle := make([]task.ID, 0, len(ids))
	for _, id := range ids {
		if unlock, ok := c.locks.Try(id); ok {
			defer unlock()
			idle = append(idle, id)
		}
	}
	return f(idle)
}
