// Package clock estimates Notion's time from the Date headers of its answers, on a machine whose
// own clocks may be wrong. It also has timers and loops. It does no I/O. One answer alone never
// makes it jump.
package clock

import (
	"context"
	"sync"
	"time"
)

// Tolerance is how far the Date of an answer may be from the estimate and still be believed
// at once. It is half of the difference that the claim protocol allows between two daemons'
// estimates of Notion's time, because each may be off by that much.
const Tolerance = 5 * time.Second

// Instant is a moment on this machine, by both of its clocks.
type Instant struct {
	Wall time.Time     // without a monotonic reading
	Mono time.Duration // since some fixed moment
}

// Local returns the current moment. start is the fixed moment, a time with a monotonic reading.
func Local(start time.Time) Instant {
	now := time.Now()
	return Instant{Wall: now.Round(0), Mono: now.Sub(start)}
}

// Since returns the time between two moments: the longer of the times by the two clocks. The
// wall clock shows too little if it was set back, and the monotonic clock if the machine was
// suspended. A wall clock that was set forward is believed until the next answer.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Mono-earlier.Mono, i.Wall.Sub(earlier.Wall))
}

// Clock estimates Notion's time. It starts with this machine's time. Each answer moves it by
// as little as it takes to agree with the answer.
//
// The Date of an answer is truncated to the second: an answer with Date D was made less than a
// second after D. So Notion's time was D or later when the answer was received, and earlier
// than D plus a second when its request was sent. After the first answer, the error of the
// estimate is at most a second plus the time that the request took. Every further answer makes
// it smaller.
//
// One answer alone does not make the clock jump: the machine that made it may be wrong. A Date
// further than Tolerance from the estimate is doubted. It moves the clock only when the answer
// to a later request agrees with it. Since an answer, the wall clock and the monotonic clock
// each measure the time, and one of them may have jumped or stopped. A Date that agrees with
// either is not doubted. An answer during which one of them jumped is ignored.
//
// A Clock is safe for concurrent use.
type Clock struct {
	mu       sync.Mutex
	estimate anchor
	doubted  *anchor // from the last Date, if that is doubted; else nil
}

// anchor is Notion's time at a moment of this machine.
type anchor struct {
	at   Instant
	time time.Time
}

// New returns a clock that uses only the wall clock until the first answer.
func New(now Instant) *Clock { return &Clock{estimate: anchor{now, now.Wall}} }

// Now returns Notion's time at a moment here, as estimated. Doubted Dates do not affect it.
func (c *Clock) Now(local Instant) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate.then(local)
}

// Doubts reports whether the last Date is doubted.
func (c *Clock) Doubts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubted != nil
}

// Hear gives the clock the Date of an answer, with the moments at which the request was sent and
// the answer received. It reports whether the Date is believed.
func (c *Clock) Hear(date time.Time, sent, received Instant) (sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Since(sent)
	if took-min(received.Mono-sent.Mono, received.Wall.Sub(sent.Wall)) > Tolerance {
		return false // a clock jumped: how long the answer took is not known
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

// then returns Notion's time at a moment after m.
func (m anchor) then(local Instant) time.Time { return m.time.Add(local.Since(m.at)).UTC() }

// agree reports whether m agrees with an answer that puts Notion's time at a moment here between
// earliest and latest. It returns the time that fits both.
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

// clamp returns the time between earliest and latest that is nearest to t.
func clamp(t, earliest, latest time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}

// Source returns the time. It is safe for concurrent use.
type Source interface{ Now() time.Time }

// Pause waits for d, or until ctx ends. If ctx has ended, the error is its cause.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
