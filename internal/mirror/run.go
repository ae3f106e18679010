package mirror

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
)

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

// sleep waits for d, or for one of the channels, and reports whether ctx is still going.
func sleep(ctx context.Context, d time.Duration, back, quicker <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-back:
	case <-quicker:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// back returns Notion.Back; nil without a Notion.
func (m *Mirror) back() <-chan struct{} {
	if m.notion == nil {
		return nil
	}
	return m.notion.Back()
}
