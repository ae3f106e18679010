package daemon

import (
	"context"
	"errors"
	"time"
)

// rememberEvery is how often the daemon reads what it has to know by heart.
const rememberEvery = 15 * time.Second

// rememberLoop has what the journal says remembered, for questions that come while its database
// is away. What is in a file of the daemon's own can be read at any time.
func (d *works) rememberLoop(ctx context.Context) {
	if d.shared == nil {
		return
	}
	for {
		_, err := d.owed(ctx)
		if err = errors.Join(err, d.broker.Remember(ctx)); err != nil && ctx.Err() == nil {
			d.log.Debug("what is to be remembered could not be read", "error", err)
		}
		if !await(ctx, nil, rememberEvery) {
			return
		}
	}
}
