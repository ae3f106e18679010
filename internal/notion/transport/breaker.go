package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// tolerated is how many reads in a row may fail before Notion counts as down. They
	// must not all be for the same thing: that alone may be broken.
	tolerated = 3
	// firstSilence is how long nothing is sent then; it doubles with every try
	// that fails, up to longestSilence.
	firstSilence   = 5 * time.Second
	longestSilence = 30 * time.Second
)

// breaker fails requests at once, unsent, while Notion is down. Otherwise each caller
// would wait for time limits and retries only to be told what is known.
//
// Now and then it lets one read through, to see whether Notion is back. That read is
// never one with permits that were taken together, because an agent waits for those.
// Only reads show whether Notion is down: a write may be refused for what it says. Where
// a request of either kind got no answer at all, a look tells at once, see confirm: who
// waits for it has waited for long.
//
// While somebody waits for Notion, it is looked for more often, see lookout.
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
	until    time.Time // when the next try is due if nobody waits; zero while Notion is up
	trying   bool      // the try is on its way
	lookout
}

// downError says that nothing is sent because Notion is down.
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

// check returns an error if Notion is down. wanted says that somebody waits for it.
func (b *breaker) check(wanted bool) error {
	if _, down := b.admit(false, wanted); down != nil {
		return down
	}
	return nil
}

// admit lets a request through, or says why not. try is set if the request is the one
// that is to find out whether Notion is back.
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

// note draws conclusions from how a request ended.
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
			b.log.Info("Notion is back", "after", now.Sub(b.since).Round(time.Second))
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

// fall has nothing sent for a while. b.mu is held.
func (b *breaker) fall(now time.Time) {
	silence := min(firstSilence<<min(b.silences, 10), longestSilence)
	if b.silences++; b.silences == 1 {
		b.log.Warn("Notion is down: nothing is sent until it answers again", "err", b.last)
		b.tried = now
	}
	b.until = now.Add(silence)
	b.arm(now)
}

// works reports whether a request that ended so was answered by a Notion that works,
// whatever the answer said.
func works(err error) bool {
	if said, ok := errors.AsType[*APIError](err); ok {
		return said.RateLimited() || said.Status < 500 && said.Code != ""
	}
	return err == nil
}
