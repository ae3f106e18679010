package claim

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"dibs/internal/task"
)

// Guard compares a held claim with the task that the mirror saw. If they differ, or the claim
// is under suspicion, Guard reads the page itself, and the page decides: a claim covered by an
// abandoned one is written back, a claim that somebody else ended is lost, and a changed lease
// is taken over. If mirrored is nil, Guard always reads the page. The error is a *Lost if the claim
// turns out to be over.
func (c *Claimer) Guard(ctx context.Context, id ID, mirrored *task.Task) error {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if h.State != Held {
		return nil
	}
	if mirrored != nil && h.Suspect.IsZero() {
		if s, _, _ := c.policy.standing(h, *mirrored, c.store.Now(), nil); s == isMine && c.fresh(h, *mirrored) {
			return nil
		}
	}
	return c.run(ctx, &errand{kind: Guard, hold: h})
}

// fresh reports whether the lease on the page is the one recorded in h.
func (c *Claimer) fresh(h Hold, t task.Task) bool {
	return t.ClaimedAt.IsZero() || c.policy.StaleAt(t.ClaimedAt, c.policy.LeaseOf(t)).Equal(h.StaleAt)
}

// Renew records that the agent is alive. It writes the lease to Notion only once half of it has
// passed; until then it returns the claim unchanged, and KeepAlive writes the lease later. A
// claim that has reached its maximum lifetime is not extended. The error is a *Lost if the
// claim is no longer the agent's, and a *StoreError if Notion could not be asked: then the
// lease ends when it did before.
func (c *Claimer) Renew(ctx context.Context, id ID) (Hold, error) {
	return c.Report(ctx, id, Report{})
}

// Report is Renew, and records what the agent says of its work. That stays in the ledger.
func (c *Claimer) Report(ctx context.Context, id ID, r Report) (Hold, error) {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	if h.State != Held {
		return Hold{}, NotHeld(h)
	}
	h.Heartbeat = c.store.Now()
	h = r.on(h)
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

// KeepAlive renews the leases of held claims whose agents were alive since the last renewal, or
// which are kept for longer, once half the lease has passed. A claim that it cannot renew keeps its old
// lease. It goes on after an error and returns the errors joined.
func (c *Claimer) KeepAlive(ctx context.Context) error {
	due := func(h Hold) bool {
		_, wanted := h.renewal()
		return wanted && c.renewalDue(h)
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

// renew renews the lease if the claim still stands. The task is locked.
func (c *Claimer) renew(ctx context.Context, h Hold) (Hold, error) {
	e := &errand{kind: Renewal, hold: h}
	if err := c.run(ctx, e); err != nil {
		return Hold{}, err
	}
	return e.hold, nil
}

// Warn records, once for each lease, that a held claim is about to end because its agent gave
// no sign of life, or because the claim could not be renewed. It returns the time of the next
// known warning; zero if there is none.
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

// warn warns the agent of a held claim, unless a last renewal succeeds. The task is locked.
func (c *Claimer) warn(ctx context.Context, h Hold) error {
	detail := "no heartbeat has come since the lease began"
	if h.KeptUntil().Equal(h.ExpiresAt()) {
		detail = "no heartbeat has come since " + noteTime(h.Heartbeat)
	} else if _, wanted := h.renewal(); wanted {
		tried, err := c.lastRenewal(ctx, h)
		if isLost(err) || err == nil && tried.ClaimedAt.After(h.ClaimedAt) {
			return nil
		}
		detail = "it could not be renewed"
		if err != nil {
			detail += ": " + err.Error()
		}
		if h, err = c.Find(ctx, h.ID); err != nil { // the renewal may have changed it
			return err
		}
	}
	f := h.fact(KindExpiring, c.store.Now())
	f.Expires, f.Detail = h.ExpiresAt(), detail
	h.Warned = f.Expires
	return c.save(ctx, h, f)
}

// lastRenewal renews a claim whose agent is alive, unless the claim has reached its maximum
// lifetime.
func (c *Claimer) lastRenewal(ctx context.Context, h Hold) (Hold, error) {
	if !c.renewalDue(h) {
		return Hold{}, fmt.Errorf("a claim lives for %v at the most, all renewals together", c.policy.MaxLifetime)
	}
	return c.renew(ctx, h)
}

// Report is what an agent says of its work while it goes on.
type Report struct {
	// Progress is how far it is; empty if it says nothing new. Only the first line's worth is
	// kept, see MaxProgress.
	Progress string
}

// MaxProgress is how many characters of a report are kept.
const MaxProgress = 300

// on returns h with what r says.
func (r Report) on(h Hold) Hold {
	h.Progress = cmp.Or(task.Brief(r.Progress, MaxProgress), h.Progress)
	return h
}

// Spend notes what the agent of a claim has used for it so far, and returns the claim. It does so
// in any state of a claim that was granted, also once that has ended: what was used is gone. The
// error is ErrUnknownClaim, or the ledger's.
func (c *Claimer) Spend(ctx context.Context, id ID, report Usage) (Hold, error) {
	h, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	used, grew := h.Used.grown(report, c.store.Now())
	if !grew || h.Started.IsZero() {
		return h, nil
	}
	h.Used = used
	ch := holding(h)
	if h.State == Ended {
		ch = Change{Used: []Hold{h}}
	}
	return h, c.commit(ctx, ch)
}
