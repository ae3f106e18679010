package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"dibs/internal/api"
)

// soonest is how long until a daemon is asked again at the soonest.
const soonest = time.Second

// Insist has requests that change something made again, under one key each, while the daemon
// says that its journal cannot be used: for that long at most, and as rarely as the daemon asks
// for. tell is called once, before the first wait. When ctx ends nothing is asked any more.
// Insist must be called before the first request.
func (c *Client) Insist(limit time.Duration, tell func(*api.Problem)) {
	c.insist, c.insists = limit, tell
}

// OnAged has tell called with the age of the first answer that was made from memory, because
// the daemon's journal cannot be asked. It must be called before the first request.
func (c *Client) OnAged(tell func(age time.Duration)) { c.aged = tell }

// do sends a request and reads its answer into out, see also Insist.
func (c *Client) do(ctx context.Context, r request, out any) error {
	if c.insist == 0 || r.method == http.MethodGet {
		return c.once(ctx, r, out)
	}
	if r.header.Get(api.KeyHeader) == "" && r.method == http.MethodPost {
		r.header.Set(api.KeyHeader, api.NewKey())
	}
	over := time.Now().Add(c.insist)
	for {
		err := c.once(ctx, r, out)
		p, refused := errors.AsType[*api.Problem](err)
		if !refused || p.Code != api.CodeJournalUnavailable || ctx.Err() != nil {
			return err
		}
		wait := max(soonest, time.Duration(p.RetryAfter)*time.Second)
		if p.RetryAfter == 0 || time.Now().Add(wait).After(over) {
			return err
		}
		c.telling.Do(func() { c.insists(p) })
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
