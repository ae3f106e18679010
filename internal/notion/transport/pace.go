package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
)

const (
	// tries is the most times that a read is sent.
	tries = 4
	// silentTries is the most times that a read without any answer is sent. Each costs the
	// whole time limit, and an agent may be waiting.
	silentTries = 2
)

// retry sends a failed read again. It never repeats a write that may have landed: only its
// caller can find out. A write that Notion would not take for now has not landed, and is sent
// again if its context is one of Making. Every sending gets a new body, because the network has
// used up the last one.
type retry struct {
	next   http.RoundTripper
	base   time.Duration // the wait before the second try; it doubles with each further try
	jitter jitter
}

func (r *retry) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// The caller's patience counts from here, over all tries.
	until := pausesUntil(ctx)
	resp, err := r.next.RoundTrip(req)
	if !again(req, err) || (req.Body != nil && req.GetBody == nil) {
		return resp, err
	}
	ctx = waitingUntil(ctx, until)
	silent := 0
	for try := 1; try < tries && again(req, err); try++ {
		if errors.Is(err, errNoAnswer) {
			if silent++; silent == silentTries {
				break
			}
		}
		// A rate limit starts a pause, which ends at its own time. Callers that will not wait
		// so long are told at once.
		if !rateLimited(err) && !sleep(ctx, r.jitter.around(r.base<<(try-1))) {
			// Notion's answer says more than a timeout.
			return nil, err
		}
		grantOf(ctx).startOver()
		next := req.Clone(ctx)
		if req.GetBody != nil {
			body, bodyErr := req.GetBody()
			if bodyErr != nil {
				return nil, bodyErr
			}
			next.Body = body
		}
		if resp, err = r.next.RoundTrip(next); err == nil {
			return resp, nil
		}
	}
	return nil, err
}

// again reports whether a request that failed like this may be sent again.
func again(req *http.Request, err error) bool {
	if isRead(req) {
		return temporary(err)
	}
	return making(req.Context()) && refusedForNow(err)
}

// refusedForNow reports whether Notion itself, and not the edge, would not take a request for
// now.
func refusedForNow(err error) bool {
	answered, isAnswered := errors.AsType[*APIError](err)
	return isAnswered && answered.RateLimited() && answered.Code != "" && !answered.Blocked()
}

// isRead reports whether a request changes nothing. Queries are sent by POST.
func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet ||
		req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/query")
}

// temporary reports whether a read that failed like this may succeed in a moment.
func temporary(err error) bool {
	if answered, ok := errors.AsType[*APIError](err); ok {
		switch answered.Status {
		case http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return answered.RateLimited() && !answered.Blocked()
	}
	_, isFailed := errors.AsType[*SendError](err)
	return isFailed && !errors.Is(err, errHeldBack) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// sleep waits for d and reports whether it did. It does not start if ctx ends sooner.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	return clock.Pause(ctx, d) == nil
}

// blockedPause is how long a connection stays silent that Notion has blocked.
const blockedPause = time.Minute

// Making returns a context for a request that makes something nobody competes for. The request
// waits for the end of a pause as long as a read does. It is sent again if Notion answered that
// it would not take it for now, because then nothing was made. If the context ends before the
// request was sent, it is not sent; a request being sent is completed.
func Making(ctx context.Context) context.Context { return context.WithValue(ctx, makingKey{}, true) }

func making(ctx context.Context) bool { return ctx.Value(makingKey{}) != nil }

// pace sends a request once it has a permit, and pauses everything when Notion answers 429 or
// 529.
type pace struct {
	next    http.RoundTripper
	permits *permits
	log     *slog.Logger
}

// errTooLate is the error of a write that came so long after its read that its permit was given
// back. Queueing for another would make it later still.
var errTooLate = errors.New("not sent: it came too late after the read before it; try again")

func (p *pace) RoundTrip(req *http.Request) (*http.Response, error) {
	var err error
	if g := grantOf(req.Context()); !isRead(req) && g.givenBack() {
		err = errTooLate
	} else {
		err = p.permits.admit(req.Context(), waitsUntil(req))
	}
	if err != nil {
		closeBody(req)
		return nil, Unsent(req, err)
	}
	if making(req.Context()) {
		req = req.WithContext(context.WithoutCancel(req.Context()))
	}
	resp, err := p.next.RoundTrip(req)
	answered, isAnswer := errors.AsType[*APIError](err)
	switch {
	case err == nil:
		p.permits.ease()
	case isAnswer && answered.Blocked():
		p.pause(max(answered.RetryAfter, blockedPause), err)
	case isAnswer && answered.RateLimited():
		p.pause(answered.RetryAfter, err)
	}
	return resp, err
}

// waitsUntil returns until when a request waits for the end of a pause; zero if it waits for
// ever. Writes do not wait, except for log entries and requests of Making: the package
// documentation says why.
func waitsUntil(req *http.Request) time.Time {
	switch {
	case isRead(req), making(req.Context()):
		return pausesUntil(req.Context())
	case laneOf(req.Context()) == LaneLog:
		return time.Time{}
	default:
		return time.Now()
	}
}

func (p *pace) pause(d time.Duration, why error) {
	d = p.permits.pause(d)
	p.log.Warn("Notion asked for a pause: if that happens often, lower notion.rate", claim.AttrEvent, claim.EventNotionPaused, "for", d.Round(time.Second).String(), claim.AttrError, why)
}
