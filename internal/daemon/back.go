package daemon

import (
	"context"

	"dibs/internal/claim"
)

// backLoop takes the steps that claims are owed as soon as Notion is reachable again.
func (d *works) backLoop(ctx context.Context) {
	for back := d.notion.Back(); ; {
		select {
		case <-back:
		case <-ctx.Done():
			return
		}
		back = d.notion.Back()
		if err := d.claimer.Hasten(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("a step that Notion is owed failed; it is tried again", claim.AttrError, err)
		}
		d.due.Wake()
	}
}
