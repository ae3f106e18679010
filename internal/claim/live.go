package claim

import (
	"context"

	"dibs/internal/task"
)

// Find returns the claim of that id in whatever state it is, or ErrUnknownClaim.
// Only one that has ended is looked up in the ledger.
func (c *Claimer) Find(ctx context.Context, id ID) (Hold, error) {
	if cl, ok := c.book.get(id); ok {
		return cl, nil
	}
	return c.ledger.Hold(ctx, id)
}

// Claims returns the claims in state Held or Finishing, oldest first: those of that
// agent, or all if it is empty.
func (c *Claimer) Claims(agent string) []Hold { return c.book.of(agent) }

// Holding is how many claims are held.
func (c *Claimer) Holding() int { return c.book.held() }

// Finishing returns the claims whose agents are done while Notion has yet to be told,
// in the order in which they said so.
func (c *Claimer) Finishing() []Hold { return c.book.until(c.book.finishes, forever) }

// On returns the claim that keeps a task from the other agents of this daemon;
// false if there is none. One that is held may have gone stale, see Hold.StaleAt.
func (c *Claimer) On(id task.ID) (Hold, bool) {
	var last Hold
	found := false
	for _, cl := range c.book.on(id) {
		last, found = cl, true // the last of several has taken the task over
	}
	return last, found
}

// Mark returns what this daemon still has on a page, or may have, under that id, which is that
// of the claim if an attempt was given up; false if there is none.
func (c *Claimer) Mark(id ID) (Mark, bool) { return c.book.mark(id) }
