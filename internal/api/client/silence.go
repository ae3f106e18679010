package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"dibs/internal/api"
)

// askTime is how long a daemon that seems silent may take to answer the check.
const askTime = 2 * time.Second

// OnSilence makes the client call notify when a request has had no answer for that long, and the
// daemon does not answer another one either: it hangs. notify is called at most once, in its own
// goroutine, and the request goes on waiting. OnSilence must be called before the first request.
func (c *Client) OnSilence(after time.Duration, notify func()) { c.patience, c.silent = after, notify }

// send sends a request. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if c.silent != nil {
		waiting, answered := context.WithCancel(ctx)
		defer answered()
		go c.listen(waiting)
	}
	return c.exchange(ctx, r)
}

// rarely is the longest pause between two checks.
const rarely = 5 * time.Minute

// listen checks from time to time that the daemon answers, until ctx ends or it does not. The
// pauses grow, since many callers may wait for long.
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
			c.silence.Do(c.silent)
			return
		}
	}
}
