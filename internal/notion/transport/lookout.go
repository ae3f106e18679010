package transport

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// lookEvery is the time between two looks for Notion while somebody waits for it.
	lookEvery = 3 * time.Second
	// lookShare lengthens that time in a long outage, up to longestSilence: to 1/lookShare of
	// the time for which Notion has been down. It takes effect after ten minutes.
	lookShare = 200
	// lookLimit is how long a look waits for its answer.
	lookLimit = 3 * time.Second
	// lately is how recent an answer must be to show confirm that Notion works.
	lately = time.Second
	// patience is how long a refused caller counts as waiting.
	patience = time.Minute
)

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
	return b.tried.Add(min(max(now.Sub(b.since)/lookShare, lookEvery), longestSilence))
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
