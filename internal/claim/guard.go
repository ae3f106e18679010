package claim

import (
	"context"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Guard compares a held claim with what the mirror saw of its task. If they
// differ, or the claim is under suspicion, the page itself is read and decides:
// a claim covered by an abandoned one is written back, one that somebody else
// ended is lost, and a lease that was changed is taken note of. A nil seen always
// reads the page. The error is a *Lost if the claim is found to be over.
func (c *Claimer) Guard(ctx context.Context, id ID, seen *task.Task) error {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if h.State != Held {
		return nil
	}
	if seen != nil && h.Suspect.IsZero() {
		if s, _, _ := c.policy.standing(h, *seen, c.store.Now(), nil); s == mine && c.fresh(h, *seen) {
			return nil
		}
	}
	return c.run(ctx, &errand{kind: Guard, hold: h})
}

// fresh reports whether the lease that a page shows is the one that h knows of.
func (c *Claimer) fresh(h Hold, t task.Task) bool {
	return t.ClaimedAt.IsZero() || c.policy.StaleAt(t.ClaimedAt, c.policy.LeaseOf(t)).Equal(h.StaleAt)
}

// Renew notes that the agent is alive. The lease is written to Notion anew only
// once half of it has passed; until then the claim comes back as it was, and
// KeepAlive does the writing later. A claim past its longest life is not
// extended any more. The error is a *Lost if the claim is no longer the
// agent's, and a *StoreError if Notion could not be asked: the lease then ends
// when it did before.
func (c *Claimer) Renew(ctx context.Context, id ID) (Hold, error) {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	if h.State != Held {
		return Hold{}, NotHeld(h)
	}
	h.Heartbeat = c.store.Now()
	if err := c.save(ctx, h); err != nil {
		return Hold{}, err
	}
	if !c.renewalDue(h) {
		return h, nil
	}
	work, cancel := c.detached(ctx)
	defer cancel()
	return c.renew(work, h)
}

// KeepAlive writes the leases of the held claims whose agents gave a sign of
// life since the last such write, once half the lease has passed. Claims it
// cannot renew keep their old lease; the first such failure is returned.
func (c *Claimer) KeepAlive(ctx context.Context) error {
	due := func(h Hold) bool {
		return h.State == Held && h.Heartbeat.After(h.ClaimedAt) && c.renewalDue(h)
	}
	return c.each(ctx, c.book.until(c.book.renewals, c.store.Now()), due, func(h Hold) error {
		_, err := c.renew(ctx, h)
		return err
	})
}

func (c *Claimer) renewalDue(h Hold) bool {
	now := c.store.Now()
	if c.policy.MaxLifetime > 0 && now.Add(h.Timeout).After(h.Started.Add(c.policy.MaxLifetime)) {
		return false
	}
	return !now.Before(h.ClaimedAt.Add(h.Timeout / 2))
}

// renew writes the lease anew if the claim still stands. The task is locked.
func (c *Claimer) renew(ctx context.Context, h Hold) (Hold, error) {
	e := &errand{kind: Renewal, hold: h}
	if err := c.run(ctx, e); err != nil {
		return Hold{}, err
	}
	return e.hold, nil
}

// maxNotice is how long before the end of its lease an agent is warned at the
// most; a third of the lease if that is less.
const maxNotice = 5 * time.Minute

// warnAt is when the agent of h is to be warned that its lease ends.
func warnAt(h Hold) time.Time {
	return h.ExpiresAt().Add(-min(maxNotice, h.Timeout/3))
}

// Warn records, once for each lease, that a held claim is about to end because
// its agent gave no sign of life, or because it could not be renewed. It returns
// the time of the next such warning as far as it is known, zero if there is none.
func (c *Claimer) Warn(ctx context.Context) (next time.Time, err error) {
	due := func(h Hold) bool {
		at, unwarned := h.warning()
		now := c.store.Now()
		return unwarned && !now.Before(at) && now.Before(h.ExpiresAt())
	}
	err = c.each(ctx, c.book.until(c.book.warnings, c.store.Now()), due, func(h Hold) error { return c.warn(ctx, h) })
	next = c.book.first(c.book.warnings, c.store.Now().Add(1), func(Hold) bool { return true })
	return next, err
}

// warn warns the agent of a held claim, unless its last sign of life makes for a
// renewal. The task is locked.
func (c *Claimer) warn(ctx context.Context, h Hold) error {
	detail := "no heartbeat has come since the lease began"
	if h.Heartbeat.After(h.ClaimedAt) {
		tried, err := c.lastRenewal(ctx, h)
		if isLost(err) || err == nil && tried.ClaimedAt.After(h.ClaimedAt) {
			return nil
		}
		detail = "it could not be renewed"
		if err != nil {
			detail += ": " + err.Error()
		}
		if h, err = c.Find(ctx, h.ID); err != nil { // as the attempt left it
			return err
		}
	}
	f := h.fact(KindExpiring, c.store.Now())
	f.Expires, f.Detail = h.ExpiresAt(), detail
	h.Warned = f.Expires
	return c.save(ctx, h, f)
}

// lastRenewal renews a claim whose agent is alive, if it may live any longer.
func (c *Claimer) lastRenewal(ctx context.Context, h Hold) (Hold, error) {
	if !c.renewalDue(h) {
		return Hold{}, fmt.Errorf("a claim lives for %v at the most, all renewals together", c.policy.MaxLifetime)
	}
	return c.renew(ctx, h)
}
