package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// The lengths of pauses.
const (
	// firstPause is the first of several pauses when Notion does not say how long
	// it wants to be left alone; each further one is twice as long, up to a minute.
	firstPause = 5 * time.Second
	// blockedPause is how long a connection that Notion has shut out stays silent.
	blockedPause = time.Minute
	// longestPause is the longest that Notion is believed to have meant.
	longestPause = 15 * time.Minute
	// impatience is how long those wait for the end of a pause for whom somebody else
	// is waiting. After more than that, it is better to be told when to come back.
	impatience = 5 * time.Second
)

// errHeldBack is behind the error of every request that was not sent, because of a
// pause or because Notion is down.
var errHeldBack = errors.New("held back")

// RetryAfter is how long to wait before trying again, as the error of a request or of a
// wait for permits says; zero if it does not.
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

// pausedError says that nothing is sent because of a pause.
type pausedError struct{ left time.Duration }

func (e *pausedError) Error() string {
	return fmt.Sprintf("not sent: Notion asked for a pause, which ends in %s", e.left.Round(time.Second))
}

func (e *pausedError) retryAfter() time.Duration { return e.left }

func (e *pausedError) Is(target error) bool { return target == errHeldBack }

type (
	patienceKey struct{} // how long the reads of a context wait for the end of a pause
	untilKey    struct{} // until when they do
	makingKey   struct{} // whether a request of a context makes something that nobody competes for
)

// Making returns a context for the request that makes something which nobody competes for. It
// waits for the end of a pause as long as a read does, and is sent again if Notion answered
// that it would not take it for now, for then nothing was made. If the context ends before
// it was sent, it is not sent; what is being sent is seen through.
func Making(ctx context.Context) context.Context { return context.WithValue(ctx, makingKey{}, true) }

func making(ctx context.Context) bool { return ctx.Value(makingKey{}) != nil }

// Patient returns a context whose reads wait for the end of a pause for that long at
// most. A read that would have to wait longer fails at once, and RetryAfter says
// when to try again.
func Patient(ctx context.Context, longest time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, longest)
}

// Impatient returns a context for somebody who sits there and waits: its reads wait
// for the end of a pause for a few seconds only, like those of a claim.
func Impatient(ctx context.Context) context.Context { return Patient(ctx, impatience) }

// waitingUntil returns a context whose reads wait until then at most; a zero time means
// for ever.
func waitingUntil(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, untilKey{}, until)
}

// pausesUntil is until when a read that is made now waits for the end of a pause; zero
// if it waits for ever.
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

// pace sends a request when it has a permit, and stops everything when Notion
// answers 429 or 529.
type pace struct {
	next    http.RoundTripper
	permits *permits
	log     *slog.Logger
}

// errTooLate is the error of a write that waited so long after its read that its permit
// was given back. In line for another one it would come later still.
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

// waitsUntil is until when a request waits for the end of a pause; zero if it waits for
// ever. Writes do not wait, except for the entries of logs and what Making says: the
// documentation of the package says why.
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
	p.log.Warn("Notion asked for a pause", "for", d.Round(time.Second), "err", why)
}
