package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"dibs/internal/api"
)

// soonest is the shortest pause before a request is repeated.
const soonest = time.Second

// Insist makes the client repeat requests that change something, each under its key, while the
// daemon says that its journal cannot be used. It stops after limit, or when ctx ends, and pauses
// as long as the daemon asks for. notify is called once, before the first pause. Insist must be
// called before the first request.
func (c *Client) Insist(limit time.Duration, notify func(*api.Problem)) {
	c.insist, c.insists = limit, notify
}

// do sends a request and reads its answer into out. See Insist for repetitions.
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
		c.insisting.Do(func() { c.insists(p) })
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
