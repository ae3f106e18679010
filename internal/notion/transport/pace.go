package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"dibs/internal/claim"
)

// The lengths of pauses.
const (
	// firstPause is the first of several pauses for which Notion names no length; each further
	// one is twice as long, up to a minute.
	firstPause = 5 * time.Second
	// blockedPause is how long a connection stays silent that Notion has blocked.
	blockedPause = time.Minute
	// longestPause is the longest pause that Notion is believed to ask for.
	longestPause = 15 * time.Minute
	// impatience is the longest wait for the end of a pause while somebody else is waiting.
	// Beyond that, it is better to tell them when to come back.
	impatience = 5 * time.Second
)

// errHeldBack is wrapped by the error of every request that was not sent because of a pause or
// because Notion is down.
var errHeldBack = errors.New("held back")

// RetryAfter returns how long to wait before a retry, according to the error of a request or of
// a wait for permits; zero if it does not say.
func RetryAfter(err error) time.Duration {
	type later interface {
		error
		retryAfter() time.Duration
	}
	if later, ok := errors.AsType[later](err); ok {
		return later.retryAfter()
	}
	return 0
}

// pausedError is the error of a request that was not sent because of a pause.
type pausedError struct{ left time.Duration }

func (e *pausedError) Error() string {
	return fmt.Sprintf("not sent: Notion asked for a pause, which ends in %s", e.left.Round(time.Second))
}

func (e *pausedError) retryAfter() time.Duration { return e.left }

func (e *pausedError) Is(target error) bool { return target == errHeldBack }

type (
	patienceKey struct{} // how long a context's reads wait for the end of a pause
	untilKey    struct{} // the time until which they wait
	makingKey   struct{} // set for requests that make something nobody competes for
)

// Making returns a context for a request that makes something nobody competes for. The request
// waits for the end of a pause as long as a read does. It is sent again if Notion answered that
// it would not take it for now, because then nothing was made. If the context ends before the
// request was sent, it is not sent; a request being sent is completed.
func Making(ctx context.Context) context.Context { return context.WithValue(ctx, makingKey{}, true) }

func making(ctx context.Context) bool { return ctx.Value(makingKey{}) != nil }

// Patient returns a context whose reads wait at most that long for the end of a pause. A read
// that would have to wait longer fails at once, and RetryAfter says when to try again.
func Patient(ctx context.Context, longest time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, longest)
}

// Impatient returns a context for a caller that sits and waits: its reads wait only a few
// seconds for the end of a pause, like those of a claim.
func Impatient(ctx context.Context) context.Context { return Patient(ctx, impatience) }

// waitingUntil returns a context whose reads wait until then for the end of a pause; a zero
// time means for ever.
func waitingUntil(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, untilKey{}, until)
}

// pausesUntil returns until when a read that is made now waits for the end of a pause; zero if
// it waits for ever.
func pausesUntil(ctx context.Context) time.Time {
	if until, ok := ctx.Value(untilKey{}).(time.Time); ok {
		return until
	}
	if g := grantOf(ctx); g != nil {
		return g.until
	}
	if longest, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return time.Now().Add(longest)
	}
	return time.Time{}
}

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
