package transport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Options configures a Transport. All fields are optional.
type Options struct {
	// Token is the secret that authorizes the requests. The transport removes it from
	// everything that comes back.
	Token string
	// BaseURL is the server: http or https, a host, and an optional path that goes before every
	// request's path. The default is https://api.notion.com.
	BaseURL string
	// Rate is the most requests per second, on average over any window of 60 seconds. The
	// default is 3.
	Rate float64
	// Burst is the most requests that may be sent at once. The default is 10.
	Burst int
	// Timeout is the time limit of a request, from its sending to the end of the answer;
	// waiting for a permit does not count. The default is 10 seconds.
	Timeout time.Duration
	// Transport sends the requests. The default connects to the network.
	Transport http.RoundTripper
	// Log gets a line for every request, at debug level, and for every pause.
	Log *slog.Logger
	// Jitter returns a random duration of at least zero and less than n, which is positive. It
	// varies the waits between tries and the lengths of pauses. It must be safe for concurrent
	// use. The default is truly random.
	Jitter func(n time.Duration) time.Duration
}

// Transport carries requests to Notion. It implements http.RoundTripper; it returns a good
// answer, an *APIError or a *SendError. It is safe for concurrent use. A process should have
// only one for each token, since Notion counts requests by token.
type Transport struct {
	chain   http.RoundTripper
	permits *permits
	breaker *breaker
	meter   *meter
	ears    *ears
}

// New returns a transport. It sends nothing.
func New(o Options) (*Transport, error) {
	base, err := parseBaseURL(cmp.Or(o.BaseURL, DefaultBaseURL))
	if err != nil {
		return nil, err
	}
	jitter := jitter(o.Jitter)
	if jitter == nil {
		jitter = random
	}
	permits, err := newPermits(cmp.Or(o.Rate, 3), cmp.Or(o.Burst, 10), jitter)
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("notion.timeout is %s: set it to a length of time above zero, such as 10s", o.Timeout)
	}
	if o.Transport == nil {
		o.Transport = newNetwork()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Transport{permits: permits, meter: newMeter(o.Log), ears: newEars(o.Log)}
	var chain http.RoundTripper
	chain = &send{next: o.Transport, timeout: cmp.Or(o.Timeout, 10*time.Second), limit: answerLimit}
	chain = &redact{next: chain, token: o.Token}
	chain = &baseURL{next: chain, base: base}
	chain = &hear{next: chain, ears: t.ears}
	chain = &typed{next: chain, server: base.Host}
	chain = &measured{next: chain, meter: t.meter}
	chain = &pace{next: chain, permits: t.permits, log: o.Log}
	t.breaker = &breaker{next: chain, log: o.Log, look: lookAs(o.Token)}
	t.chain = &retry{next: t.breaker, base: 500 * time.Millisecond, jitter: jitter}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.chain.RoundTrip(req)
}

// Now returns the best estimate of Notion's time, from the Date headers of answers and the time
// that has passed since. Before the first answer it is this machine's time. A single answer
// does not make it jump, see clock.Clock.
func (t *Transport) Now() time.Time { return t.ears.now() }

// DoubtsNow reports whether the last answer's time disagreed with Now, so that the next one
// decides.
func (t *Transport) DoubtsNow() bool { return t.ears.clock.Doubts() }

// Down returns an error that says since when Notion is down, and why; nil if Notion is up as
// far as is known.
func (t *Transport) Down() error { return t.breaker.check(false) }

// Back returns a channel that is closed when Notion, having been down, next answers again.
func (t *Transport) Back() <-chan struct{} { return t.breaker.whenBack() }

// Await tells the transport that somebody waits for Notion. If Notion is down, the transport
// looks for it every few seconds for the next minute, and less often the longer it has been
// down. A caller that was refused a permit, or a request in another lane than LaneSync, counts
// as waiting anyway.
func (t *Transport) Await() { t.breaker.await() }

// Paused returns an error that says when a pause ends that Notion asked for; nil if there is no
// pause, or one that ends within a few seconds.
func (t *Transport) Paused() error { return t.permits.check() }

// SetRate changes Options.Rate and Options.Burst.
func (t *Transport) SetRate(perSecond float64, burst int) error {
	return t.permits.setRate(perSecond, burst)
}

// Permit waits until n requests may be sent back to back, and returns a context that carries
// those permits: a request with that context is sent at once. It fails at once while Notion is
// down, or during a pause of more than a few seconds; RetryAfter says when to try again.
//
// The caller must end ctx when done: that returns the unused permits, and until then nobody
// else can have them. A later request waits in line again.
func (t *Transport) Permit(ctx context.Context, n int) (context.Context, error) {
	if err := t.breaker.check(waitedFor(ctx)); err != nil {
		return nil, err
	}
	return t.permits.grant(ctx, n)
}

// Stats returns the present numbers.
func (t *Transport) Stats() Stats {
	s := Stats{Requests: t.meter.counts(), Waiting: make(map[Lane]int, lanes)}
	waiting, until := t.permits.waiting()
	s.Permits, s.Burst = t.permits.room()
	for lane, n := range waiting {
		s.Waiting[Lane(lane)] = n
	}
	s.PausedUntil = until
	return s
}
