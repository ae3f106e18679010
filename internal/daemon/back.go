package daemon

import (
	"context"
	"time"
)

// awaitEvery is how often the daemon says, while Notion is down, that log entries are owed.
const awaitEvery = 30 * time.Second

// backLoop has what is owed to Notion delivered as soon as it is found to be back.
func (d *works) backLoop(ctx context.Context) {
	for back := d.notion.Back(); ; {
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
		back = d.notion.Back()
		for _, drain := range d.drains {
			if err := drain.Hasten(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("the outbox failed", "error", err)
			}
			wake(drain.owed)
		}
		if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", "error", err)
		}
		wake(d.due)
	}
}
