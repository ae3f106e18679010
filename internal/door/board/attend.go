package board

import (
	"context"
	"sync"

	"dibs/internal/api"
	"dibs/internal/kit/clock"
)

// attendance counts the pages in front of somebody. While there is one, the daemon is told by an
// impatient reader of its events, which makes it ask Notion more often. The board's own reader is
// patient: it is there all the time.
type attendance struct {
	board *Board

	mu    sync.Mutex
	pages int
	end   context.CancelFunc
}

// enter counts a page until leave is called.
func (a *attendance) enter() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages++; a.pages == 1 {
		var ctx context.Context
		ctx, a.end = context.WithCancel(context.Background())
		go a.hurry(ctx)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.pages--; a.pages == 0 {
			a.end()
		}
	}
}

// hurry reads events and drops them, until ctx ends.
func (a *attendance) hurry(ctx context.Context) {
	for ctx.Err() == nil {
		// The board's own reader reports errors.
		_, _ = a.board.Daemon.Events(ctx, api.EventFilter{After: api.EventsFuture}, true, func(api.Event) error { return nil })
		_ = clock.Pause(ctx, againAfter)
	}
}
