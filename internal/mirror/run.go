package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"dibs/internal/claim"
)

const (
	// quietAfter is how long no agent must have been there for the mirror to slow down, and
	// quietPace the interval from then on, unless Config.Interval is longer.
	quietAfter = time.Hour
	quietPace  = time.Minute
	// catchUpWait is how long the first agent after that waits for a sync.
	catchUpWait = 3 * time.Second
)

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

// firstWait is how long Begin waits for the first sync. A board of usual size is read by
// then, so that the first caller sees all of it. Of a larger one Standing reports the
// progress.
const firstWait = 5 * time.Second

// Begin starts the first sync and waits a few seconds for it. The sync goes on after Begin has
// returned. The error is the sync's; but if Notion cannot be reached and there are tasks of an
// earlier run, Begin returns nil, and these are used. If Config.Failure already says so, Begin
// does not wait.
func (m *Mirror) Begin(ctx context.Context) error {
	known := func() bool { return !m.Standing().SyncedAt.IsZero() }
	hopeless := m.failing() && known()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	var err error
	go func() {
		defer close(m.first)
		_, err = m.RunOnce(work)
	}()
	if hopeless {
		return nil
	}
	wait := time.NewTimer(firstWait)
	defer wait.Stop()
	select {
	case <-m.first:
		if isKind(err, claim.Unavailable) && known() {
			return nil
		}
		return err
	case <-wait.C:
		m.log.Info("the tasks are still being read; serving meanwhile")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run makes a sync whenever one is due, until ctx ends: after Config.Interval, sooner while somebody
// waits, see Await, and later while nobody is there, see Use. It begins after the first sync. Syncs
// that were asked for count as the last one. Begin must have been called.
func (m *Mirror) Run(ctx context.Context) {
	select {
	case <-m.first:
	case <-ctx.Done():
	}
	back := m.back()
	failed := m.failing()
	for wait := m.nextSync(nil); ; {
		quicker := m.pace.quicker
		if failed {
			quicker = nil // who comes now does not mend it
		}
		if !sleep(ctx, wait, back, quicker) {
			return
		}
		back = m.back() // taken before a sync that may fail
		if wait = m.untilDue(); wait > 0 {
			continue
		}
		_, err := m.RunOnce(ctx) // it logs its error
		failed = err != nil
		if err == nil {
			back = nil // it may have closed the channel itself
		}
		wait = m.nextSync(err)
	}
}

// nextSync returns the wait after a sync that ended with err. A sync that failed because Notion
// is down is repeated as soon as that makes sense: it is how the daemon finds out that Notion is
// back.
func (m *Mirror) nextSync(err error) time.Duration {
	interval := time.Duration(m.interval.Load())
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.RetryAfter > 0 {
		return min(max(failed.RetryAfter, time.Second), interval)
	}
	if err != nil || m.failing() {
		return interval
	}
	return max(0, m.untilDue())
}

// untilDue returns how long it is until a sync may be due; zero or less if one is, or the last one
// failed. While somebody waits it is short, because permits may come free.
func (m *Mirror) untilDue() time.Duration {
	gap := m.gap()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.IsZero() || m.failure != nil {
		return 0
	}
	left := gap - time.Since(m.done)
	if m.awaited() {
		left = min(left, time.Duration(m.waiting.Load()))
	}
	return left
}

// Close ends the first sync, if it is still under way.
func (m *Mirror) Close() error {
	if m.stop != nil {
		m.stop()
		<-m.first
	}
	return nil
}

// back returns Notion.Back; nil without a Notion.
func (m *Mirror) back() <-chan struct{} {
	if m.notion == nil {
		return nil
	}
	return m.notion.Back()
}
