package notion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	// anyPause is the patience of those who wait for the end of every pause.
	anyPause time.Duration = math.MaxInt64
)

// errHeldBack is the error of requests that were not sent because of a pause.
var errHeldBack = errors.New("held back")

// pausedError says that nothing is sent at present.
type pausedError struct{ left time.Duration }

func (e *pausedError) Error() string {
	return fmt.Sprintf("not sent: Notion asked for a pause, which ends in %s", e.left.Round(time.Second))
}

func (e *pausedError) retryAfter() time.Duration { return e.left }

func (e *pausedError) Is(target error) bool { return target == errHeldBack }

type patienceKey struct{}

// Patient returns a context whose reads wait for the end of a pause of that length,
// and no longer one: beyond that they fail at once, and the error says when to try
// again.
func Patient(ctx context.Context, longest time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, longest)
}

// Impatient returns a context for somebody who sits there and waits: its reads do
// so for the end of a short pause only, like a claim's.
func Impatient(ctx context.Context) context.Context { return Patient(ctx, grantPatience) }

// patienceOf is how long a pause the reads of a context wait for.
func patienceOf(ctx context.Context) time.Duration {
	if grantOf(ctx) != nil {
		return grantPatience
	}
	if longest, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return longest
	}
	return anyPause
}

// pace sends a request when it has a permit, and stops everything when Notion
// answers 429 or 529. Reads wait for the end of a pause, except that those for
// which an agent waits, as part of a step with permits of its own, or a person, do
// so for a short one only. Writes do not wait: a claim's write must follow its read at once,
// and after a wait would follow it too late, so whoever made it has to start over
// with the read. Nothing comes before the entry of a log, so that waits like a read.
type pace struct {
	next    http.RoundTripper
	permits *permits
	log     *slog.Logger
}

func (p *pace) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	patience := time.Duration(0)
	switch {
	case isRead(req):
		patience = patienceOf(ctx)
	case laneOf(ctx) == LaneLog:
		patience = anyPause
	}
	if err := p.permits.admit(ctx, patience); err != nil {
		closeBody(req)
		failed := unsent(req, err)
		var paused *pausedError
		if errors.As(err, &paused) {
			failed.RetryAfter = paused.left
		}
		return nil, failed
	}
	resp, err := p.next.RoundTrip(req)
	var answered *APIError
	switch {
	case err == nil:
		p.permits.ease()
	case errors.As(err, &answered) && answered.blocked():
		p.pause(max(answered.RetryAfter, blockedPause), err)
	case errors.As(err, &answered) && answered.rateLimited():
		p.pause(answered.RetryAfter, err)
	}
	return resp, err
}

func (p *pace) pause(d time.Duration, why error) {
	d = p.permits.pause(d)
	p.log.Warn("Notion asked for a pause", "for", d.Round(time.Second), "err", why)
}
