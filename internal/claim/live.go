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
	return c.ledger.Claim(ctx, id)
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
// false if there is none. One that is held may have gone stale, see Claim.StaleAt.
func (c *Claimer) On(id task.ID) (Hold, bool) {
	var last Hold
	found := false
	for _, cl := range c.book.on(id) {
		if cl.State.Reserves() { // the last of several has taken the task over
			last, found = cl, true
		}
	}
	return last, found
}

// held returns the claim that t shows, if it is one that an agent here has; a
// zero one otherwise.
func (c *Claimer) held(t task.Task) Hold {
	for _, cl := range c.book.on(t.ID) {
		if (cl.State == Held || cl.State == Finishing) && c.onPage(cl, t) {
			return cl
		}
	}
	return Hold{}
}
