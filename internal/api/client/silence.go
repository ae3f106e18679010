package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"dibs/internal/api"
)

// askTime is for how long a daemon that may stand still is waited for.
const askTime = 2 * time.Second

// OnSilence has tell called when a request has had no answer for that long, and the daemon does
// not answer another one either: it stands still. It is called once at most, by a goroutine of
// its own, and the request goes on waiting. OnSilence must be called before the first request.
func (c *Client) OnSilence(after time.Duration, tell func()) { c.patience, c.silent = after, tell }

// send sends a request. The body of its answer is the caller's to close.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if c.silent != nil {
		waiting, answered := context.WithCancel(ctx)
		defer answered()
		go c.listen(waiting)
	}
	return c.exchange(ctx, r)
}

// rarely is how long it takes at most until a daemon is asked again that was there.
const rarely = 5 * time.Minute

// listen asks the daemon now and then whether it is there, until ctx ends or it is not: ever
// more rarely, since many may wait for long for what is to come.
func (c *Client) listen(ctx context.Context) {
	for wait := c.patience; ; wait = min(2*wait, rarely) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, askTime)
		resp, err := c.exchange(asking, newRequest(api.OpStatus, struct{}{}))
		silent := errors.Is(asking.Err(), context.DeadlineExceeded)
		cancel()
		if err == nil {
			resp.Body.Close()
		} else if silent && ctx.Err() == nil {
			c.told.Do(c.silent)
			return
		}
	}
}
