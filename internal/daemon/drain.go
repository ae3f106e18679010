package daemon

import (
	"context"
	"time"

	"dibs/internal/worklog"
)

// drain delivers the entries of one log, and is woken when there may be some. No log waits for
// another.
type drain struct {
	*worklog.Drainer
	*loop
}

// awaitEvery is how often the daemon says, while Notion is down, that log entries are owed.
const awaitEvery = 30 * time.Second

// deliver delivers the entries of a log that may be delivered now. While Notion is down all would
// only be refused, and noted: it is asked for the last time, even so.
func (d *works) deliver(ctx context.Context, log *worklog.Drainer, last bool) (wait time.Duration) {
	down := !last && d.notion.Down() != nil
	if !down {
		if _, err := log.RunOnce(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("the outbox failed", "error", err)
		}
	}
	if last || ctx.Err() != nil {
		return untilWoken
	}
	next, owed, err := log.NextAt(ctx)
	switch {
	case err != nil || !owed:
		return untilWoken
	case down:
		d.notion.Await()
		return awaitEvery // or until it is back
	}
	return max(time.Second, time.Until(next))
}
