// Package clock estimates Notion's time on a machine whose own clocks may be wrong, from
// the Date headers of Notion's answers, and waits. It does no I/O.
package clock

import (
	"sync"
	"time"
)

// Tolerance is how far the Date of an answer may lie from the estimate and still be
// believed at once. It is half of what the claim protocol allows two daemons' ideas of
// Notion's time to differ by, since each may be off by as much.
const Tolerance = 5 * time.Second

// Instant is a moment on this machine, by both of its clocks.
type Instant struct {
	Wall time.Time     // without a monotonic reading
	Mono time.Duration // since some fixed moment
}

// Local is this moment. start is the fixed moment, a time with a monotonic reading.
func Local(start time.Time) Instant {
	now := time.Now()
	return Instant{Wall: now.Round(0), Mono: now.Sub(start)}
}

// Since is how much time passed between two moments: the longer time of the two that
// the clocks say. The wall clock says too little when it was set back. The monotonic
// clock says too little when the machine was suspended. A wall clock that was set
// forward is believed until the next answer.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Mono-earlier.Mono, i.Wall.Sub(earlier.Wall))
}

// Clock estimates Notion's time. It starts out with this machine's time. With each
// answer it moves as little as it takes to agree with it.
//
// The Date of an answer is cut to the second: an answer of date D was made at D, or less
// than a second later. So Notion's time was D or later when the answer was received, and
// earlier than D plus a second when its request was sent. After the first answer the estimate is
// right to within a second and the time that the request took. It gets closer with
// every further answer.
//
// One answer alone does not make the clock jump: the machine that made it may be wrong.
// A Date that lies further than Tolerance from the estimate is doubted, and moves the
// clock only when the answer to a later request agrees with it. The estimate has two
// sources of its own, the wall clock and the monotonic clock, of which one may jump or
// stand still. A Date that agrees with either of them is not doubted. An answer during
// which one of them jumped tells nothing.
//
// A Clock is safe for concurrent use.
type Clock struct {
	mu       sync.Mutex
	estimate anchor
	doubted  *anchor // what the last Date that was doubted says; nil if none is
}

// anchor says what Notion's time was at a moment here.
type anchor struct {
	at   Instant
	time time.Time
}

// New returns a clock that goes by the wall clock alone.
func New(now Instant) *Clock { return &Clock{estimate: anchor{now, now.Wall}} }

// Now is the estimate at a moment here. No Date that is doubted has moved it.
func (c *Clock) Now(local Instant) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate.then(local)
}

// Doubts reports whether the last Date that was heard is doubted.
func (c *Clock) Doubts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted != nil
}

// Hear tells the clock the Date of an answer, when its request was sent and when it was
// received. It reports whether the Date is believed.
func (c *Clock) Hear(date time.Time, sent, received Instant) (sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Since(sent)
	if took-min(received.Mono-sent.Mono, received.Wall.Sub(sent.Wall)) > Tolerance {
		return false // how long the answer took is not known, nor what goes with it
	}
	latest := date.Add(time.Second + took)
	if at, ok := c.estimate.agree(received, date, latest); ok {
		c.estimate, c.doubted = anchor{received, at}, nil
		return true
	}
	if d := c.doubted; d != nil && sent.Mono >= d.at.Mono {
		if at, ok := d.agree(received, date, latest); ok {
			c.estimate, c.doubted = anchor{received, at}, nil
			return true
		}
	}
	c.doubted = &anchor{received, clamp(c.estimate.then(received), date, latest)}
	return false
}

// then is Notion's time at a moment after m.
func (m anchor) then(local Instant) time.Time { return m.time.Add(local.Since(m.at)).UTC() }

// agree reports whether an answer that says that it is between earliest and latest at
// a moment here goes with m, and what time it is by both.
func (m anchor) agree(local Instant, earliest, latest time.Time) (time.Time, bool) {
	passed, mono, wall := local.Since(m.at), local.Mono-m.at.Mono, local.Wall.Sub(m.at.Wall)
	for _, passed := range []time.Duration{passed, mono, wall} {
		t := m.time.Add(passed)
		if best := clamp(t, earliest, latest); best.Sub(t).Abs() <= Tolerance {
			return best, true
		}
	}
	return time.Time{}, false
}

// clamp is the time between earliest and latest that is nearest to t.
func clamp(t, earliest, latest time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}
