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

// Run makes a sync whenever an interval has passed since the last one, until ctx ends. It
// begins after the first sync. Syncs that were asked for count as the last one. Begin must
// have been called.
func (m *Mirror) Run(ctx context.Context) {
	select {
	case <-m.first:
	case <-ctx.Done():
	}
	back := m.back()
	for wait := m.nextSync(nil); ; {
		if !sleep(ctx, wait, back) {
			return
		}
		back = m.back() // taken before a sync that may fail
		if wait = m.untilDue(); wait > 0 {
			continue
		}
		_, err := m.RunOnce(ctx) // it logs its error
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
	return interval
}

// untilDue returns the time until an interval has passed since the last successful sync; zero or
// less if a sync is due, or the last one failed.
func (m *Mirror) untilDue() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.IsZero() || m.failure != nil {
		return 0
	}
	return time.Duration(m.interval.Load()) - time.Since(m.done)
}

// Close ends the first sync, if it is still under way.
func (m *Mirror) Close() error {
	if m.stop != nil {
		m.stop()
		<-m.first
	}
	return nil
}

// sleep waits for d, or for early, and reports whether ctx is still going.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
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
