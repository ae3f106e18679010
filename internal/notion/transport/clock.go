package transport

import (
	"net/http"
	"sync"
	"time"
)

// hear lets the clock hear what time an answer says it is.
type hear struct {
	next  http.RoundTripper
	clock *clock
}

func (t *hear) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.clock.local()
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.clock.hear(date, sent, t.clock.local())
	}
	return resp, nil
}

// clock estimates Notion's time. It starts out with this machine's time. With each
// answer it moves as little as it takes to agree with it.
//
// The Date of an answer is cut to the second: an answer of date D was made at D, or less
// than a second later. So Notion's time was D or later when the answer was received, and
// earlier than D plus a second when its request was sent. After the first answer the estimate is
// right to within a second and the time that the request took. It gets closer with
// every further answer.
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

// since is how much time passed between two moments: the longer time of the two that
// the clocks say. The wall clock says too little when it was set back. The monotonic
// clock says too little when the machine was suspended. A wall clock that was set
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
