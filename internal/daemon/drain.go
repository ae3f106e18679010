package daemon

import (
	"context"
	"time"

	"dibs/internal/worklog"
)

// drain delivers the entries of one log. Neither log waits for the other.
type drain struct {
	*worklog.Drainer
	owed chan struct{} // wakes its loop: there may be entries
}

// drainLoop delivers the entries of a log as soon as there are any, and for the last time
// when the rest of the daemon has stopped.
func (d *works) drainLoop(ctx context.Context, drain drain, stopped <-chan struct{}) {
	for last := false; ; {
		down := !last && d.notion.Down() != nil // then all would only be refused, and noted
		if !down {
			if _, err := drain.RunOnce(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("the outbox failed", "error", err)
			}
		}
		if last || ctx.Err() != nil {
			return
		}
		wait := time.Hour
		if next, ok, err := drain.NextAt(ctx); err == nil && ok {
			wait = max(time.Second, time.Until(next))
			if down {
				d.notion.Await()
				wait = awaitEvery // or until it is back
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-drain.owed:
		case <-timer.C:
		case <-stopped:
			last = true
		}
		timer.Stop()
	}
}
