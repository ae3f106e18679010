package daemon

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

// rememberEvery is how often the answers in memory are refreshed.
const rememberEvery = 15 * time.Second

// remember reads from the journal what must be answered from memory while its database cannot be
// reached. A journal in a file needs no copy.
func (d *works) remember(ctx context.Context) time.Duration {
	_, err := d.owed(ctx)
	if err = errors.Join(err, d.broker.Remember(ctx)); err != nil && ctx.Err() == nil {
		d.log.Debug("what is to be remembered could not be read", claim.AttrError, err)
	}
	return rememberEvery
}
