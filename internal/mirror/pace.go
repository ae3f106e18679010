package mirror

import (
	"context"
	"sync"
	"time"

	"dibs/internal/kit/clock"
)

const (
	// quietAfter is how long no agent must have been there for the mirror to slow down, and
	// quietPace the interval from then on, unless Config.Interval is longer.
	quietAfter = time.Hour
	quietPace  = time.Minute
	// catchUpWait is how long the first agent after that waits for a sync.
	catchUpWait = 3 * time.Second
)

// pace knows who waits for what people do in Notion.
type pace struct {
	mu      sync.Mutex
	waits   int           // the callers that wait now
	left    time.Time     // when one of them last left
	used    time.Time     // when an agent was last there
	waking  chan struct{} // closed when the sync of the first agent after an hour is over; nil for none
	quicker clock.Bell    // rung when a sync may be due earlier
}

// Await says that somebody waits for what people do in Notion, until done is called. Meanwhile a
// sync follows the one before after Config.Waiting. If the last one is older than that, the next
// begins at once.
func (m *Mirror) Await() (done func()) {
	p := &m.pace
	p.mu.Lock()
	p.waits++
	p.used = time.Now()
	p.mu.Unlock()
	p.quicker.Ring()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits--
		p.left = time.Now()
		p.used = p.left
	})
}

// Used says that an agent is there.
func (m *Mirror) Used() {
	m.pace.mu.Lock()
	defer m.pace.mu.Unlock()
	m.pace.used = time.Now()
}

// Use is Used for a caller to whom it matters what is on the board now. If no agent was there for an
// hour, the mirror may be a minute old: then Use makes a sync, and waits a few seconds for it.
func (m *Mirror) Use(ctx context.Context) {
	p := &m.pace
	wake := m.slow() && !m.failing() && m.Listed()
	p.mu.Lock()
	p.used = time.Now()
	waking := p.waking
	if wake && waking == nil {
		p.waking = make(chan struct{})
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	switch {
	case waking != nil: // somebody else woke it
		select {
		case <-waking:
		case <-ctx.Done():
		}
	case wake:
		// Its error is noted. The caller goes on with what there is.
		_, _ = m.Sync(ctx, false)
		p.mu.Lock()
		close(p.waking)
		p.waking = nil
		p.mu.Unlock()
		p.quicker.Ring()
	}
}

// awaited reports whether somebody waits, or did until a moment ago: a stream of events is a chain
// of waits.
func (m *Mirror) awaited() bool {
	m.pace.mu.Lock()
	defer m.pace.mu.Unlock()
	waiting := time.Duration(m.waiting.Load())
	return waiting > 0 && (m.pace.waits > 0 || time.Since(m.pace.left) < waiting)
}

// slow reports whether nobody has been there for so long that syncs are rare.
func (m *Mirror) slow() bool {
	m.pace.mu.Lock()
	quiet := m.pace.waits == 0 && time.Since(m.pace.used) >= quietAfter
	m.pace.mu.Unlock()
	return quiet && m.idle != nil && m.idle()
}

// gap returns the time from the end of a sync to the next one. The quick one is for when somebody
// waits. It takes only permits that nobody else needs, and no more than its share of the rate: a
// sync that took several requests is followed by a longer gap.
func (m *Mirror) gap() time.Duration {
	interval := time.Duration(m.interval.Load())
	if m.awaited() {
		free, apart := m.source.Room()
		m.mu.Lock()
		quick, done := max(time.Duration(m.waiting.Load()), time.Duration(m.cost)*apart), m.done
		m.mu.Unlock()
		if quick = max(quick, time.Since(done)+m.share.wait()); free {
			return min(interval, quick)
		}
	} else if m.slow() {
		return max(interval, quietPace)
	}
	return interval
}
