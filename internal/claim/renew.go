package claim

import (
	"context"
	"fmt"

	"dibs/internal/clock"
)

// Renew notes that the agent is alive. The lease is written to Notion anew only
// once half of it has passed; until then the claim comes back as it was, and
// KeepAlive does the writing later. A claim past its longest life is not
// extended any more. The error is a *Lost if the claim is no longer the
// agent's, and a *StoreError if Notion could not be asked: the lease then ends
// when it did before.
func (c *Claimer) Renew(ctx context.Context, id ID) (Hold, error) {
	cl, unlock, err := c.lockClaim(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	defer unlock()
	if cl.State != Held {
		return Hold{}, c.notHeld(cl)
	}
	cl.Heartbeat = c.store.Now()
	if err := c.save(ctx, cl); err != nil {
		return Hold{}, err
	}
	if !c.renewalDue(cl) {
		return cl, nil
	}
	work, cancel := c.detached(ctx)
	defer cancel()
	return c.renew(work, cl)
}

// KeepAlive writes the leases of the held claims whose agents gave a sign of
// life since the last such write, once half the lease has passed. Claims it
// cannot renew keep their old lease; the first such failure is returned.
func (c *Claimer) KeepAlive(ctx context.Context) error {
	due := func(cl Hold) bool {
		return cl.State == Held && cl.Heartbeat.After(cl.ClaimedAt) && c.renewalDue(cl)
	}
	return c.each(ctx, c.book.until(c.book.renewals, c.store.Now()), due, func(cl Hold) error {
		_, err := c.renew(ctx, cl)
		return err
	})
}

func (c *Claimer) renewalDue(cl Hold) bool {
	now := c.store.Now()
	if c.policy.MaxLifetime > 0 && now.Add(cl.Timeout).After(cl.Started.Add(c.policy.MaxLifetime)) {
		return false
	}
	return !now.Before(cl.ClaimedAt.Add(cl.Timeout / 2))
}

// renew writes the lease anew if the claim still stands; one that is to be
// repaired first is renewed the next time. The task is locked.
func (c *Claimer) renew(ctx context.Context, cl Hold) (Hold, error) {
	v, err := c.visit(ctx, cl.Task.ID, 0)
	if err != nil {
		return Hold{}, err
	}
	defer v.Close()
	if s, _, _ := c.look(cl, v.Task, v.judged()); s != mine {
		return c.mend(ctx, v, cl)
	}

	if v.Unsure {
		return Hold{}, fmt.Errorf("claim %s was not renewed: %w", cl.ID, errUntimed)
	}
	renewed := cl
	renewed.ClaimedAt = c.store.Now()
	if cl.Heartbeat.After(renewed.ClaimedAt) { // the clock was ahead; it stands for one renewal only
		renewed.Heartbeat = renewed.ClaimedAt
	}
	w := Write{ClaimedAt: new(renewed.ClaimedAt)}
	cl.Noted = renewed.ClaimedAt
	renewed.Noted = cl.Noted
	if err := v.save(ctx, cl); err != nil { // before it is on the page
		return Hold{}, fmt.Errorf("claim %s was not renewed: %w", cl.ID, err)
	}
	answer, f, err := v.write(w)
	if f == notLanded {
		return Hold{}, fmt.Errorf("claim %s was not renewed: %w", cl.ID, err)
	}
	// A rival overrides only what it read after StaleAt, by the Date of an
	// answer that came within its window. What landed before any such read
	// needs no more than its answer; after that a rival may be between its read
	// and its write, and the renewal has to survive the settle wait, as a claim
	// does.
	inTime := f == seen && !answer.Unsure && answer.At.Before(cl.StaleAt.Add(-c.policy.WriteWindow-clockAllowance))
	if inTime {
		s, _, _ := c.look(cl, answer.Task, answer.judged())
		inTime = s == mine
	}
	if !inTime {
		if err := clock.Pause(ctx, c.policy.Settle); err != nil {
			return Hold{}, err
		}
		if answer, err = c.read(ctx, cl.Task.ID); err != nil {
			return Hold{}, err
		}
		s, holder, detail := c.look(cl, answer.Task, answer.judged())
		switch {
		case s == gone:
			return c.lose(ctx, cl, answer.Task, holder, detail)
		case s != mine || !w.shows(answer.Task, c.policy.NoToken):
			return Hold{}, Errorf(Unavailable, LandedUnknown, "%q: Notion does not show the renewal; the claim ends when it would have ended without it", cl.Task.Title)
		}
	}
	c.refresh(&renewed, answer.Task)
	e := renewed.fact(KindRenewed, renewed.ClaimedAt)
	e.Remote = true
	return renewed, c.save(ctx, renewed, e)
}
