package claim

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxNotice is how long before the end of its lease an agent is warned at the
// most; a third of the lease if that is less.
const maxNotice = 5 * time.Minute

// warnAt is when the agent of cl is to be warned that its lease ends.
func warnAt(cl Hold) time.Time {
	return cl.ExpiresAt().Add(-min(maxNotice, cl.Timeout/3))
}

// Warn records, once for each lease, that a held claim is about to end because
// its agent gave no sign of life, or because it could not be renewed. It returns
// the time of the next such warning as far as it is known, zero if there is none.
func (c *Claimer) Warn(ctx context.Context) (next time.Time, err error) {
	due := func(cl Hold) bool {
		at, unwarned := cl.warning()
		now := c.store.Now()
		return unwarned && !now.Before(at) && now.Before(cl.ExpiresAt())
	}
	err = c.each(ctx, c.book.until(c.book.warnings, c.store.Now()), due, func(cl Hold) error { return c.warn(ctx, cl) })
	next = c.book.first(c.book.warnings, c.store.Now().Add(1), func(Hold) bool { return true })
	return next, err
}

// warn warns the agent of a held claim, unless its last sign of life makes for a
// renewal. The task is locked.
func (c *Claimer) warn(ctx context.Context, cl Hold) error {
	detail := "no heartbeat has come since the lease began"
	if cl.Heartbeat.After(cl.ClaimedAt) {
		tried, err := c.lastRenewal(ctx, cl)
		if lost := (*Lost)(nil); errors.As(err, &lost) || err == nil && tried.ClaimedAt.After(cl.ClaimedAt) {
			return nil
		}
		detail = "it could not be renewed"
		if err != nil {
			detail += ": " + err.Error()
		}
		if cl, err = c.Find(ctx, cl.ID); err != nil { // as the attempt left it
			return err
		}
	}
	e := cl.fact(KindExpiring, c.store.Now())
	e.Expires, e.Detail = cl.ExpiresAt(), detail
	cl.Warned = e.Expires
	return c.save(ctx, cl, e)
}

// lastRenewal renews a claim whose agent is alive, if it may live any longer.
func (c *Claimer) lastRenewal(ctx context.Context, cl Hold) (Hold, error) {
	if !c.renewalDue(cl) {
		return Hold{}, fmt.Errorf("a claim lives for %v at the most, all renewals together", c.policy.MaxLifetime)
	}
	return c.renew(ctx, cl)
}
