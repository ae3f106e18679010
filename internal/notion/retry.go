package notion

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// tries is how often a read is sent at most, patience how often if it is not
// answered at all: each time costs the whole time limit, and an agent may be waiting.
const (
	tries    = 4
	patience = 2
)

// retry sends a failed read again. It never sends a write again: one that failed
// may have landed, and only whoever made it can find out. The body is made anew
// for every sending; what the transport has read of the last one is gone.
type retry struct {
	next http.RoundTripper
	base time.Duration // wait before the second try; it doubles with every further one
}

func (r *retry) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err == nil || !isRead(req) || (req.Body != nil && req.GetBody == nil) {
		return resp, err
	}
	ctx := req.Context()
	silent := 0
	for try := 1; try < tries && temporary(err); try++ {
		if errors.Is(err, errNoAnswer) {
			if silent++; silent == patience {
				break
			}
		}
		if !sleep(ctx, jitter(r.base<<(try-1))) {
			// What Notion said tells more than that time ran out.
			return nil, err
		}
		grantOf(ctx).restart()
		again := req.Clone(ctx)
		if req.GetBody != nil {
			body, bodyErr := req.GetBody()
			if bodyErr != nil {
				return nil, bodyErr
			}
			again.Body = body
		}
		if resp, err = r.next.RoundTrip(again); err == nil {
			return resp, nil
		}
	}
	return nil, err
}

// isRead reports whether a request changes nothing. Queries are sent by POST.
func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet ||
		req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/query")
}

// temporary reports whether a read that failed like this may succeed in a moment.
func temporary(err error) bool {
	var answered *APIError
	if errors.As(err, &answered) {
		switch answered.Status {
		case http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return answered.rateLimited() && !answered.blocked()
	}
	var failed *SendError
	return errors.As(err, &failed) && !errors.Is(err, errHeldBack) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// jitter spreads d out, so that those who failed together do not come back together.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d)
}

// sleep reports whether it slept for d; it does not start if ctx ends sooner.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
