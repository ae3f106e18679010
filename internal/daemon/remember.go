package daemon

import (
	"context"
	"errors"
	"time"
)

// rememberEvery is how often the daemon reads what it has to know by heart.
const rememberEvery = 15 * time.Second

// remember has what the journal says remembered, for questions that come while its
// database is away. What is in a file of the daemon's own can be read at any time.
func (d *works) remember(ctx context.Context) time.Duration {
	_, err := d.owed(ctx)
	if err = errors.Join(err, d.broker.Remember(ctx)); err != nil && ctx.Err() == nil {
		d.log.Debug("what is to be remembered could not be read", "error", err)
	}
	return rememberEvery
}
