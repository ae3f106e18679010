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

// lines writes a line of the daemon's log for each fact that this daemon stores. The journal hands
// the facts over between two transactions, and a loop writes the lines: a log that stands still
// holds up nothing else.
type lines struct {
	log   *slog.Logger
	words wording.Lines
	loop  *clock.Loop

	writing sync.Mutex // keeps lines in order

	mu    sync.Mutex
	facts []claim.Fact // to be written, oldest first
	lost  int          // facts since, for which there was no room
}

func newLines(log *slog.Logger) *lines {
	l := &lines{log: log, words: wording.NewLines(log)}
	l.loop = clock.NewLoop(clock.UntilWoken, func(context.Context) (wait time.Duration) {
		l.write()
		return clock.UntilWoken
	})
	return l
}

// hear takes over what a transaction has stored. Changes that were only seen on the board have no
// line: `dibs events` tells of them, and what they do to a claim is a fact of the record.
func (l *lines) hear(stored []journal.Stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range stored {
		switch {
		case !f.Recorded || !l.words.Want(f.Fact):
		case len(l.facts) < mostUntold:
			l.facts = append(l.facts, f.Fact)
		default:
			l.lost++
		}
	}
	if len(l.facts) > 0 {
		l.loop.Wake()
	}
}

// write writes all lines that wait.
func (l *lines) write() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	facts, lost := l.facts, l.lost
	l.facts, l.lost = nil, 0
	l.mu.Unlock()
	for _, f := range facts {
		l.words.Write(f)
	}
	if lost > 0 {
		l.log.Warn("lines are missing here, because the log stood still; dibs log has what they would say", claim.AttrCount, lost)
	}
}

// close writes the last lines. No more facts are stored by then.
func (l *lines) close() error {
	l.write()
	return nil
}
