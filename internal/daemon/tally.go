package daemon

import (
	"context"
	"sync"
	"time"

	"dibs/internal/history"
	"dibs/internal/journal"
)

// tally counts in the journal the requests sent to Notion in each minute, and how many tasks are
// open and held.
type tally struct {
	journal *journal.Journal
	// sent returns how many were sent since the start.
	sent func() int
	// standing returns how many tasks are open, and how many are held here.
	standing func() (open, held int)
	now      func() time.Time // Notion's time

	mu     sync.Mutex
	stored int // how many of those sent are in the journal
}

// store adds to the journal the requests sent since the last call, a minute ago, and a look at the
// board.
func (t *tally) store(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	sent := t.sent()
	counts := history.Counts{history.Looks: 1}
	counts[history.Backlog], counts[history.Held] = t.standing()
	if sent > t.stored {
		counts[history.Requests] = sent - t.stored
	}
	if err := t.journal.Count(ctx, t.now().Add(-history.Fine/2), counts); err != nil {
		return err
	}
	t.stored = sent
	return nil
}

// pending returns how many requests are not stored yet.
func (t *tally) pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent() - t.stored
}

// History returns the journal's history; the last step includes the requests not stored yet.
func (l ledger) History(ctx context.Context, w history.Window) ([]history.Counts, error) {
	pending := l.tally.pending()
	steps, err := l.Journal.History(ctx, w)
	if err == nil && pending > 0 {
		steps[len(steps)-1][history.Requests] += pending
	}
	return steps, err
}

// requests returns how many requests were sent to Notion since the start.
func (d *works) requests() int {
	n := 0
	for _, c := range d.notion.Stats().Requests {
		n += c.N
	}
	return n
}
