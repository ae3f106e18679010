package claim

import (
	"context"
	"errors"
	"time"
)

// Recover takes up, once at the start, what an earlier run of the daemon left:
// a claim that was written but not granted is to be withdrawn, a finish to be
// delivered, each by the next RunDue.
func (c *Claimer) Recover(ctx context.Context) error {
	live, err := c.ledger.Live(ctx)
	if err != nil {
		return err
	}
	for _, cl := range live {
		c.keep(cl)
		if cl.State == Finishing || cl.State == Clearing {
			c.inherited.Store(cl.ID, time.Now().Add(c.policy.Request))
		}
	}
	finishing := func(cl Hold) bool { return cl.State == Finishing }
	return errors.Join(
		c.each(ctx, live, c.cutShort, func(cl Hold) error { return c.giveUp(ctx, cl) }),
		c.each(ctx, live, finishing, func(cl Hold) error {
			cl.Due = c.store.Now()
			return c.save(ctx, cl)
		}),
	)
}

// arrives is how long the write that frees the task of cl may yet be on its way from an earlier
// run of the daemon, or from one that led before: were it repeated, the first could land on
// the claim of whoever has the task by then.
func (c *Claimer) arrives(cl Hold) time.Duration {
	until, inherited := c.inherited.Load(cl.ID)
	if !inherited {
		return 0
	}
	return max(0, time.Until(until.(time.Time)))
}

// cutShort reports whether cl is an attempt that nobody is making any more: an
// earlier run of the daemon was, or the ledger failed in the middle of it.
func (c *Claimer) cutShort(cl Hold) bool {
	_, underway := c.underway.Load(cl.ID)
	return cl.attempting() && !underway
}

// giveUp ends an attempt that was cut short, or has it withdrawn if it may be
// in Notion.
func (c *Claimer) giveUp(ctx context.Context, cl Hold) error {
	e := cl.fact(KindDenied, c.store.Now())
	e.Code, e.Detail, e.Remote = CodeNotionUnavailable, "the attempt was cut short before the claim was verified", true
	cl.Detail = e.Detail
	if cl.State == Reserved {
		_, err := c.end(ctx, cl, EndNotGranted, e.Detail, e)
		return err
	}
	cl.State, cl.Due = Abandoned, c.store.Now()
	return c.save(ctx, cl, e)
}

// attempting reports whether c is an attempt that has yet to come to something.
func (c Hold) attempting() bool { return c.State == Reserved || c.State == Writing }
