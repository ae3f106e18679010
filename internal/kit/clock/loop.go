package clock

import (
	"context"
	"time"
)

// UntilWoken is the wait of a loop that is woken whenever there is something to do.
const UntilWoken = time.Hour

// Loop runs a function again and again: when it is woken, and at the latest after the wait that the
// last turn returned. Wake is safe for concurrent use; Run or Until runs once.
type Loop struct {
	first time.Duration
	turn  func(context.Context) (wait time.Duration)
	woken Bell
}

// NewLoop returns a loop. Its first turn comes after first, or when it is woken.
func NewLoop(first time.Duration, turn func(context.Context) (wait time.Duration)) *Loop {
	return &Loop{first: first, turn: turn, woken: NewBell()}
}

// Wake causes one more turn: now if the loop waits, else after the current turn.
func (l *Loop) Wake() { l.woken.Ring() }

// Run runs turns until ctx ends.
func (l *Loop) Run(ctx context.Context) { l.Until(ctx, ctx.Done()) }

// Until runs turns until stop is closed. A turn under way then goes on; only the end of ctx cuts it
// off.
func (l *Loop) Until(ctx context.Context, stop <-chan struct{}) {
	for wait := l.first; l.await(wait, stop); {
		wait = l.turn(ctx)
	}
}

// await waits for wait, or until the loop is woken. It returns false if stop is closed.
func (l *Loop) await(wait time.Duration, stop <-chan struct{}) bool {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-l.woken:
		case <-timer.C:
		case <-stop:
		}
	}
	select {
	case <-stop:
		return false
	default:
		return true
	}
}
