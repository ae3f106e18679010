package clock

import (
	"context"
	"time"
)

// UntilWoken is the wait of a loop that whoever has something for it wakes.
const UntilWoken = time.Hour

// Loop does something over and over: whenever it is woken, and at the latest after the wait that
// its last turn returned. It may be woken by several at the same time, and runs once.
type Loop struct {
	first time.Duration
	turn  func(context.Context) (wait time.Duration)
	woken Bell
}

// NewLoop returns a loop that waits for that long before its first turn, or is woken.
func NewLoop(first time.Duration, turn func(context.Context) (wait time.Duration)) *Loop {
	return &Loop{first: first, turn: turn, woken: NewBell()}
}

// Wake makes a loop go round once more: now if it waits, else as soon as it has finished
// what it is doing.
func (l *Loop) Wake() { l.woken.Ring() }

// Run goes round until ctx ends.
func (l *Loop) Run(ctx context.Context) { l.Until(ctx, ctx.Done()) }

// Until goes round until stop is closed, which does not cut off a turn, as the end of ctx does.
func (l *Loop) Until(ctx context.Context, stop <-chan struct{}) {
	for wait := l.first; l.await(wait, stop); {
		wait = l.turn(ctx)
	}
}

// await waits until the loop is woken, or the time is over; false if it is to stop.
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
