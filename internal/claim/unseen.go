package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// watchTime is how long an abandoned write that never showed is watched for.
// Notion gives up on a request after a minute; the rest is caution.
const watchTime = 24 * time.Hour

// Sighted is told of a claim token that the mirror saw on a task. If it belongs to a
// claim in state Unseen, whose write has arrived after all, the claim becomes
// Abandoned and due at once, and Sighted returns true.
func (c *Claimer) Sighted(ctx context.Context, token string) (bool, error) {
	cl, ok := c.unseen(token)
	if !ok {
		return false, nil
	}
	unlock, err := c.locks.lock(ctx, cl.Task.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	cl.Task.Token = token
	return c.sighted(ctx, cl.Task)
}

// sighted is Sighted for a task that is locked, as a page shows it.
func (c *Claimer) sighted(ctx context.Context, t task.Task) (bool, error) {
	cl, ok := c.unseen(t.Token)
	if !ok || cl.Task.ID != t.ID {
		return false, nil
	}
	cl.State, cl.Due = Abandoned, c.store.Now()
	return true, c.save(ctx, cl)
}

// unseen returns the claim of that token, if it is one whose write has not been
// seen so far.
func (c *Claimer) unseen(token string) (Claim, bool) {
	tok := ParseToken(token)
	if tok.Done {
		return Claim{}, false
	}
	cl, ok := c.book.get(tok.ID)
	return cl, ok && cl.State == Unseen
}
