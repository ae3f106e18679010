package daemon

import (
	"context"
	"time"
)

// loop does something over and over: at first, whenever it is woken, and at the latest after the
// wait that its last turn returned.
type loop struct {
	turn  func(context.Context) (wait time.Duration)
	woken chan struct{}
	// first is how long it waits to be woken before its first turn.
	first time.Duration
}

// untilWoken is the wait of a loop that whoever has something for it wakes.
const untilWoken = time.Hour

func newLoop(turn func(context.Context) (wait time.Duration)) *loop {
	return &loop{turn: turn, woken: make(chan struct{}, 1)}
}

// wake makes a loop go round once more: now if it waits, else as soon as it has finished
// what it is doing.
func (l *loop) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// run goes round until ctx ends.
func (l *loop) run(ctx context.Context) { l.until(ctx, ctx.Done()) }

// until goes round until stop is closed, which does not cut off a turn, as the end of ctx does.
func (l *loop) until(ctx context.Context, stop <-chan struct{}) {
	for wait := l.first; ; wait = l.turn(ctx) {
		timer := time.NewTimer(wait)
		select {
		case <-l.woken:
		case <-timer.C:
		case <-stop:
		}
		timer.Stop()
		select {
		case <-stop:
			return
		default:
		}
	}
}

// left is how long a loop waits for that time of Notion's: not much less than a second, and not
// longer than most. Zero is no time.
func (d *works) left(next time.Time, most time.Duration) time.Duration {
	if next.IsZero() {
		return most
	}
	return max(time.Second, min(most, next.Sub(d.notion.Now())))
}
