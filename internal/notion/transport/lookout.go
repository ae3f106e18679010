package transport

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is the time between two looks for Notion while somebody waits for it.
	lookEvery = 3 * time.Second
	// lookShare makes it longer in the long run, up to longestSilence: then it is that
	// part of the time for which Notion has been down. It takes ten minutes to tell.
	lookShare = 200
	// lookLimit is how long a look waits for its answer.
	lookLimit = 3 * time.Second
	// lately is how long an answer shows that Notion works, for confirm.
	lately = time.Second
	// patience is for how long somebody counts as waiting who was refused.
	patience = time.Minute
)

// lookout looks for a Notion that is down, with one small request at a time, for as long
// as somebody waits for it. It is part of the breaker, and guarded by its mutex.
type lookout struct {
	wanted time.Time     // until when somebody waits
	tried  time.Time     // when the last try or look was begun
	timer  *time.Timer   // begins the next look; nil if none is due
	asked  chan struct{} // closed when the look that confirm makes is over; nil if there is none
	back   chan struct{} // closed when Notion is back; nil if nobody has asked for it
}

// waitedFor reports whether somebody waits for the requests of a context. Nobody does for
// the mirror's.
func waitedFor(ctx context.Context) bool { return laneOf(ctx) != LaneSync }

// await notes that somebody waits for Notion, should it be down.
func (b *breaker) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want(time.Now())
}

// want is await for who holds the mutex.
func (b *breaker) want(now time.Time) {
	b.wanted = now.Add(patience)
	b.arm(now)
}

// due is when the next try or look may be made, while Notion is down.
func (b *breaker) due(now time.Time) time.Time {
	if !now.Before(b.wanted) {
		return b.until
	}
	return b.tried.Add(min(max(now.Sub(b.since)/lookShare, lookEvery), longestSilence))
}

// arm sees to it that Notion is looked for when that is due, if somebody waits for it.
func (b *breaker) arm(now time.Time) {
	if b.until.IsZero() || !now.Before(b.wanted) || b.timer != nil {
		return
	}
	b.timer = time.AfterFunc(b.due(now).Sub(now), b.lookFor)
}

// lookFor looks whether Notion is back.
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

// lookOnce makes one look, and notes what came of it.
func (b *breaker) lookOnce(lane Lane) error {
	ctx, cancel := context.WithTimeout(InLane(context.Background(), lane), lookLimit)
	defer cancel()
	req := b.look(ctx)
	_, err := b.next.RoundTrip(req)
	b.note(req, err, err == nil)
	return err
}

// confirm looks for Notion after a request that got no answer, and waits for the end of
// the look. If that gets none either, and nothing else does meanwhile, Notion is down.
// If it does, the request alone is to blame. One look serves all who ask for it at the
// same time, and an answer that just came serves as one.
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

// ask makes the look of confirm.
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

// announce tells those who wait that Notion is back.
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

// lookAs returns what makes the request that looks for Notion: it asks who the token
// belongs to, which needs no right to anything.
func lookAs(token string, version *atomic.Value) func(context.Context) *http.Request {
	return func(ctx context.Context) *http.Request {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, DefaultBaseURL+"/v1/users/me", nil)
		if err != nil {
			panic(err) // all of it is fixed
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Notion-Version", version.Load().(string))
		return req
	}
}
