package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/kit/clock"
	"dibs/internal/outbox/wording"
)

// mostUntold is how many lines wait at most for a log that stands still. They take a few megabytes.
const mostUntold = 4096

// telling writes a line of the daemon's log for each fact that this daemon stores. The journal hands
// the facts over between two transactions, and a loop writes the lines: a log that stands still
// holds up nothing else.
type telling struct {
	log   *slog.Logger
	lines wording.Lines
	loop  *clock.Loop

	writing sync.Mutex // keeps lines in order

	mu    sync.Mutex
	facts []claim.Fact // to be written, oldest first
	lost  int          // facts since, for which there was no room
}

func newTelling(log *slog.Logger) *telling {
	t := &telling{log: log, lines: wording.NewLines(log)}
	t.loop = clock.NewLoop(clock.UntilWoken, func(context.Context) (wait time.Duration) {
		t.write()
		return clock.UntilWoken
	})
	return t
}

// hear takes over what a transaction has stored. Changes that were only seen on the board have no
// line: `dibs events` tells of them, and what they do to a claim is a fact of the record.
func (t *telling) hear(stored []journal.Stored) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range stored {
		switch {
		case !f.Recorded || !t.lines.Want(f.Fact):
		case len(t.facts) < mostUntold:
			t.facts = append(t.facts, f.Fact)
		default:
			t.lost++
		}
	}
	if len(t.facts) > 0 {
		t.loop.Wake()
	}
}

// write writes all lines that wait.
func (t *telling) write() {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	facts, lost := t.facts, t.lost
	t.facts, t.lost = nil, 0
	t.mu.Unlock()
	for _, f := range facts {
		t.lines.Write(f)
	}
	if lost > 0 {
		t.log.Warn("lines are missing here, because the log stood still; dibs log has what they would say", claim.AttrCount, lost)
	}
}

// close writes the last lines. No more facts are stored by then.
func (t *telling) close() error {
	t.write()
	return nil
}
