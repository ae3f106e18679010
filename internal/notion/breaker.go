package notion

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// tolerated is how many reads in a row may fail before Notion counts as down.
	// It does not as long as they are all for the same thing: that may be broken.
	tolerated = 3
	// firstSilence is how long nothing is sent then; it doubles with every try
	// that fails, up to longestSilence.
	firstSilence   = 5 * time.Second
	longestSilence = 30 * time.Second
)

// breaker fails requests at once, unsent, while Notion is down: nobody waits for
// time limits and retries only to be told what is known. Now and then it lets one
// read through, to see whether Notion is back. That is never one of several
// requests whose permits were taken together, because an agent waits for those.
// What tells is reads: a write that fails may be refused for what it says.
type breaker struct {
	next http.RoundTripper
	log  *slog.Logger

	mu       sync.Mutex
	failures int    // of reads, since the last good answer
	path     string // of the first of them
	several  bool   // others were for something else
	silences int    // since the last good answer
	since    time.Time
	last     error
	until    time.Time // when the next try is due; zero while Notion is up
	trying   bool      // the try is on its way
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
	mayTry := isRead(req) && grantOf(req.Context()) == nil
	try, err := b.admit(mayTry)
	if err != nil {
		closeBody(req)
		failed := unsent(req, err)
		failed.RetryAfter = err.left
		return nil, failed
	}
	resp, rerr := b.next.RoundTrip(req)
	b.note(req, rerr, try)
	return resp, rerr
}

// check says whether Notion is down.
func (b *breaker) check() error {
	if _, err := b.admit(false); err != nil {
		return err
	}
	return nil
}

// admit lets a request through, or says why not. try is set if it is the one that
// is to find out whether Notion is back.
func (b *breaker) admit(mayTry bool) (try bool, err *downError) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return false, nil
	}
	left := time.Until(b.until)
	if left <= 0 && mayTry && !b.trying {
		b.trying = true
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
	switch {
	case answered(err):
		if !b.until.IsZero() {
			b.log.Info("Notion is back", "after", time.Since(b.since).Round(time.Second))
		}
		b.failures, b.several, b.silences, b.until = 0, false, 0, time.Time{}
	case !isRead(req), errors.Is(err, errHeldBack), req.Context().Err() != nil:
	default:
		if b.failures++; b.failures == 1 {
			b.since, b.path = time.Now(), req.URL.Path
		}
		b.several = b.several || req.URL.Path != b.path
		b.last = err
		if try || b.until.IsZero() && b.failures >= tolerated && b.several {
			silence := min(firstSilence<<min(b.silences, 10), longestSilence)
			if b.silences++; b.silences == 1 {
				b.log.Warn("Notion is down: nothing is sent until it answers again", "err", err)
			}
			b.until = time.Now().Add(silence)
		}
	}
}

// answered reports whether a request that ended so had an answer from a Notion
// that works, whatever it said.
func answered(err error) bool {
	var said *APIError
	if errors.As(err, &said) {
		return said.rateLimited() || said.Status < 500 && said.Code != ""
	}
	return err == nil
}
