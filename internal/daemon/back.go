package daemon

import "context"

// backLoop has the steps that claims are owed taken as soon as Notion is found to be back.
func (d *works) backLoop(ctx context.Context) {
	for back := d.notion.Back(); ; {
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
		back = d.notion.Back()
		if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", "error", err)
		}
		d.due.Wake()
	}
}
