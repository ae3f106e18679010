package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/backoff"
)

// tolerated is how many reads in a row must fail before Notion counts as down. They must not all be
// for the same path: that alone may be broken.
const tolerated = 3

// silence is how long nothing is sent then, after every try that failed.
var silence = backoff.Backoff{First: 5 * time.Second, Longest: 30 * time.Second}

// breaker fails requests at once, unsent, while Notion is down. Otherwise each caller would
// wait for time limits and retries to learn what is already known.
//
// Now and then it lets one read through as a try, to see whether Notion is back. That is never
// a read with permits that were taken together, because an agent waits for those. Only reads
// show whether Notion is down: a write may be refused for its content. If a request of either
// kind got no answer at all, a look decides at once, see confirm: the caller has waited for
// long.
//
// While somebody waits for Notion, the looks are more frequent, see lookout.
type breaker struct {
	next http.RoundTripper
	log  *slog.Logger
	look func(context.Context) *http.Request // makes the request that looks for Notion

	mu       sync.Mutex
	failures int    // of reads, since the last good answer
	path     string // of the first of them
	several  bool   // others had another path
	silences int    // since the last good answer
	since    time.Time
	last     error
	worked   time.Time // when the last good answer came
	until    time.Time // when the next try is due without waiters; zero while Notion is up
	trying   bool      // the try is on its way
	lookout
}

// downError is the error of a request that was not sent because Notion is down.
type downError struct {
	since time.Time
	left  time.Duration
	last  error
}

func (e *downError) Error() string {
	return fmt.Sprintf("not sent: Notion has been down for %s, and is tried again in %s; it failed last with: %v",
		time.Since(e.since).Round(time.Second), e.left.Round(time.Second), e.last)
}

func (e *downError) Is(target error) bool { return target == errHeldBack }

func (e *downError) retryAfter() time.Duration { return e.left }

func (b *breaker) RoundTrip(req *http.Request) (*http.Response, error) {
	mayTry := isRead(req) && !HasPermits(req.Context())
	try, down := b.admit(mayTry, waitedFor(req.Context()))
	if down != nil {
		closeBody(req)
		return nil, Unsent(req, down)
	}
	resp, err := b.next.RoundTrip(req)
	b.note(req, err, try)
	if errors.Is(err, errNoAnswer) {
		b.confirm(req, err)
	}
	return resp, err
}

// check returns an error if Notion is down. wanted says that somebody waits for Notion.
func (b *breaker) check(wanted bool) error {
	if _, down := b.admit(false, wanted); down != nil {
		return down
	}
	return nil
}

// admit admits a request, or returns why not. try is set if the request is the one that finds
// out whether Notion is back.
func (b *breaker) admit(mayTry, wanted bool) (try bool, down *downError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return false, nil
	}
	now := time.Now()
	if wanted {
		b.want(now)
	}
	left := b.due(now).Sub(now)
	if left <= 0 && mayTry && !b.trying {
		b.trying, b.tried = true, now
		return true, nil
	}
	return false, &downError{b.since, max(left, time.Second), b.last}
}

// note updates the state from the outcome of a request.
func (b *breaker) note(req *http.Request, err error, try bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if try {
		b.trying = false
	}
	now := time.Now()
	if err != nil && waitedFor(req.Context()) {
		b.want(now)
	}
	switch {
	case works(err):
		if !b.until.IsZero() {
			b.log.Info("Notion is back", claim.AttrEvent, claim.EventNotionBack, "after", now.Sub(b.since).Round(time.Second).String())
			b.announce()
		}
		b.failures, b.several, b.silences, b.until, b.worked = 0, false, 0, time.Time{}, now
	case !isRead(req), errors.Is(err, errHeldBack), req.Context().Err() != nil:
	default:
		if b.failures++; b.failures == 1 {
			b.since, b.path = now, req.URL.Path
		}
		b.several = b.several || req.URL.Path != b.path
		b.last = err
		if try || b.until.IsZero() && b.failures >= tolerated && b.several {
			b.fall(now)
		}
	}
}

// fall stops sending for a while. b.mu is held.
func (b *breaker) fall(now time.Time) {
	if b.silences++; b.silences == 1 {
		b.log.Warn("Notion is down: nothing is sent until it answers again", claim.AttrEvent, claim.EventNotionDown, claim.AttrError, b.last)
		b.tried = now
	}
	b.until = now.Add(silence.After(b.silences))
	b.arm(now)
}

// works reports whether an outcome shows that Notion works, whatever the answer said.
func works(err error) bool {
	if answered, ok := errors.AsType[*APIError](err); ok {
		return answered.RateLimited() || answered.Status < 500 && answered.Code != ""
	}
	return err == nil
}

const (
	// lookEvery is the time between two looks for Notion while somebody waits for it.
	lookEvery = 3 * time.Second
	// lookShare lengthens that time in a long outage, up to the longest silence: to 1/lookShare of
	// the time for which Notion has been down. It takes effect after ten minutes.
	lookShare = 200
	// lookLimit is how long a look waits for its answer.
	lookLimit = 3 * time.Second
	// lately is how recent an answer must be to show confirm that Notion works.
	lately = time.Second
	// patience is how long a refused caller counts as waiting.
	patience = time.Minute
)

// looks are the waits between looks, with lookShare.
var looks = backoff.Backoff{First: lookEvery, Longest: silence.Longest}

// lookout looks for a Notion that is down, with one small request at a time, while somebody
// waits for it. It is part of the breaker and guarded by its mutex.
type lookout struct {
	wanted time.Time     // somebody waits until then
	tried  time.Time     // when the last try or look began
	timer  *time.Timer   // begins the next look; nil if none is due
	asked  chan struct{} // closed at the end of confirm's look; nil if there is none
	back   chan struct{} // closed when Notion is back; nil if nobody has asked for it
}

// waitedFor reports whether somebody waits for the requests of a context. Nobody waits for the
// mirror's.
func waitedFor(ctx context.Context) bool { return laneOf(ctx) != LaneSync }

// await records that somebody waits for Notion, should it be down.
func (b *breaker) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want(time.Now())
}

// want is await with b.mu held.
func (b *breaker) want(now time.Time) {
	b.wanted = now.Add(patience)
	b.arm(now)
}

// due returns when the next try or look may be made while Notion is down.
func (b *breaker) due(now time.Time) time.Time {
	if !now.Before(b.wanted) {
		return b.until
	}
	return b.tried.Add(looks.Since(now.Sub(b.since) / lookShare))
}

// arm schedules the next look, if Notion is down and somebody waits for it.
func (b *breaker) arm(now time.Time) {
	if b.until.IsZero() || !now.Before(b.wanted) || b.timer != nil {
		return
	}
	b.timer = time.AfterFunc(b.due(now).Sub(now), b.lookFor)
}

// lookFor makes a look, if one is due, and schedules the next.
func (b *breaker) lookFor() {
	b.mu.Lock()
	b.timer = nil
	now := time.Now()
	if b.until.IsZero() || now.Before(b.due(now)) {
		b.arm(now) // somebody else has tried
		b.mu.Unlock()
		return
	}
	b.tried = now
	b.mu.Unlock()

	_ = b.lookOnce(LaneSync)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arm(time.Now())
}

// lookOnce makes one look, and records its outcome.
func (b *breaker) lookOnce(lane Lane) error {
	ctx, cancel := context.WithTimeout(InLane(context.Background(), lane), lookLimit)
	defer cancel()
	req := b.look(ctx)
	_, err := b.next.RoundTrip(req)
	b.note(req, err, err == nil)
	return err
}

// confirm looks for Notion after a request that got no answer, and waits for the end of the
// look. If the look gets no answer either, and nothing else does meanwhile, Notion is down. If
// it gets one, only the request is to blame. One look serves all who need it at the same time,
// and an answer that just came replaces it.
func (b *breaker) confirm(req *http.Request, cause error) {
	b.mu.Lock()
	if !b.until.IsZero() || time.Since(b.worked) < lately {
		b.mu.Unlock()
		return
	}
	done := b.asked
	if done == nil {
		done = make(chan struct{})
		b.asked = done
		go b.ask(laneOf(req.Context()), cause)
	}
	b.mu.Unlock()
	select {
	case <-done:
	case <-req.Context().Done():
	}
}

// ask makes confirm's look.
func (b *breaker) ask(lane Lane, cause error) {
	began := time.Now()
	err := b.lookOnce(lane)
	silent := errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errInLine)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.asked)
	b.asked = nil
	if !silent || b.worked.After(began) || !b.until.IsZero() {
		return
	}
	now := time.Now()
	if b.failures == 0 {
		b.since = now
	}
	b.last = cause
	b.fall(now)
}

// announce tells the waiters that Notion is back.
func (b *breaker) announce() {
	if b.back != nil {
		close(b.back)
		b.back = nil
	}
}

// whenBack returns a channel that is closed when Notion is next found to be back.
func (b *breaker) whenBack() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back == nil {
		b.back = make(chan struct{})
	}
	return b.back
}

// lookAs returns the function that makes a look's request: it asks whom the token belongs to,
// which needs no capability.
func lookAs(token string) func(context.Context) *http.Request {
	return func(ctx context.Context) *http.Request {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, DefaultBaseURL+"/v1/users/me", nil)
		if err != nil {
			panic(err) // all of it is fixed
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Notion-Version", Version)
		return req
	}
}
