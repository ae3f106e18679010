package daemon

import "context"

// backLoop has what is owed to Notion delivered as soon as it is found to be back.
func (d *works) backLoop(ctx context.Context) {
	for back := d.notion.Back(); ; {
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
		back = d.notion.Back()
		for _, log := range d.drains {
			if err := log.Hasten(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("the outbox failed", "error", err)
			}
			log.wake()
		}
		if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", "error", err)
		}
		d.due.wake()
	}
}
