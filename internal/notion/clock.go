package notion

import (
	"net/http"
	"sync"
	"time"
)

// tell lets the clock hear what time an answer says it is, and tells whoever made
// the request.
type tell struct {
	next  http.RoundTripper
	clock *clock
}

func (t *tell) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.clock.local()
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.clock.hear(date, sent, t.clock.local())
		exchangeOf(req.Context()).date = date
	}
	return resp, nil
}

// clock estimates Notion's time. It starts out with this machine's time and moves
// as little as it takes to agree with each answer. An answer of date D, which is
// cut to the second, says that it was at least D when it was received and less
// than D plus a second when its request was sent, or a little later; so the
// estimate comes to within a second and a request's time after the first answer,
// and closer with every further one.
type clock struct {
	started time.Time // what monotonic readings count from

	mu   sync.Mutex
	at   instant   // a moment here
	time time.Time // and Notion's time at that moment
}

// instant is a moment on this machine, by both of its clocks.
type instant struct {
	wall time.Time     // without a monotonic reading
	mono time.Duration // since the clock started
}

func newClock() *clock {
	c := &clock{started: time.Now()}
	c.at = c.local()
	c.time = c.at.wall
	return c
}

func (c *clock) local() instant {
	now := time.Now()
	return instant{wall: now.Round(0), mono: now.Sub(c.started)}
}

// since is how much time passed between two moments. The wall clock may be set
// back, which the monotonic clock does not see; the monotonic clock stands still
// while the machine is suspended, which the wall clock does not. A wall clock set
// forward is believed until the next answer.
func (i instant) since(earlier instant) time.Duration {
	return max(i.mono-earlier.mono, i.wall.Sub(earlier.wall))
}

func (c *clock) now() time.Time {
	local := c.local()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notion(local)
}

func (c *clock) notion(local instant) time.Time {
	return c.time.Add(local.since(c.at)).UTC()
}

func (c *clock) hear(date time.Time, sent, received instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.notion(received)
	earliest := date
	latest := date.Add(time.Second + received.since(sent))
	switch {
	case now.Before(earliest):
		now = earliest
	case now.After(latest):
		now = latest
	}
	c.at, c.time = received, now
}
