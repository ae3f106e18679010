package daemon

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

// tidyUp tidies the board after a sync.
func (d *works) tidyUp(ctx context.Context) time.Duration {
	if d.mirror.Closed() != nil {
		return clock.UntilWoken // the mirror is incomplete
	}
	err := d.tidy(ctx)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != d.said && ctx.Err() == nil {
		d.log.Warn("what claims that are over have left on tasks could not be taken off yet; it is tried again", claim.AttrError, err)
	}
	d.said = said
	return clock.UntilWoken
}

// tidy clears the remains of this daemon's ended claims from tasks' pages, as the mirror has them:
// people undo, restore and duplicate what they see. If a page fails, the others are still tidied,
// and it is tried again after the next sync.
func (d *works) tidy(ctx context.Context) error {
	var errs []error
	for t := range d.mirror.Tasks() {
		tidied, err := d.claimer.Tidy(ctx, t)
		if tidied {
			d.due.Wake()
		}
		if tidied && err == nil {
			d.log.Warn("a task showed a claim that is over, which is taken off", claim.AttrKey, t.Key, claim.AttrTitle, claim.Brief(t.Title), claim.AttrHolder, claim.Brief(t.ClaimedBy), claim.AttrTask, t.ID)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || err != nil && !claim.Asked(err) {
			return errors.Join(errs...) // Notion cannot be asked now
		}
	}
	return errors.Join(append(errs, d.claimer.Repay(ctx, d.mirror.Task))...)
}
