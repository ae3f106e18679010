package claim

import (
	"context"
	"time"

	"dibs/internal/task"
)

// watchTime is how long an abandoned write that never showed is watched for.
// Notion gives up on a request after a minute; the rest is caution.
const watchTime = 24 * time.Hour

// watchEnd is when a claim in state Unseen may be forgotten.
func (c Hold) watchEnd() time.Time { return c.Reserved.Add(watchTime) }

// forget ends a claim whose write never showed, once an answer of Notion's has said that
// the time for it is over: the clock here may have jumped ahead since the last one. The
// task is locked.
func (c *Claimer) forget(ctx context.Context, cl Hold) error {
	if c.heard().Before(cl.watchEnd()) {
		v, err := c.revisit(ctx, cl)
		if v == nil {
			return err
		}
		v.Close()
		if now, ok := c.book.get(cl.ID); !ok || now.State != Unseen {
			return nil // it is on the page after all
		}
		switch {
		case v.Unsure:
			return c.postpone(ctx, cl, errUntimed)
		case v.At.Before(cl.watchEnd()):
			return nil // the answer has set the clock right
		}
	}
	_, err := c.end(ctx, cl, EndNotGranted, cl.Detail)
	return err
}

// hear takes note of the time that a reading tells, if it is confirmed.
func (c *Claimer) hear(r Reading) {
	for !r.Unsure {
		last := c.latest.Load()
		if last != nil && !last.Before(r.At) || c.latest.CompareAndSwap(last, &r.At) {
			return
		}
	}
}

// heard is the latest time that a reading has told; zero if none has.
func (c *Claimer) heard() time.Time {
	if at := c.latest.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

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
func (c *Claimer) unseen(token string) (Hold, bool) {
	tok := ParseToken(token)
	if tok.Done {
		return Hold{}, false
	}
	cl, ok := c.book.get(tok.ID)
	return cl, ok && cl.State == Unseen
}
