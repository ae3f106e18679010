package referee

import (
	"fmt"
	"sync"
	"time"
)

// Inbox is what inboxes told their agents.
type Inbox struct {
	book       *Book
	visibility time.Duration

	mu    sync.Mutex
	shown map[string]*showing // by the triggers' ids
	told  map[string]string   // the triggers' ids, by agents and lines
	owed  map[string]bool     // agents and lines
}

// showing is a trigger that a poll returned.
type showing struct {
	line, taker string
	at          time.Time
	done        Ack
}

// Ack is how far the acknowledgement of a trigger came.
type Ack int

// Nobody asked for it; or somebody did, and the outcome is unknown; or it was answered.
const (
	Unacked Ack = iota
	Asked
	Acked
)

// NewInbox returns an inbox whose triggers, once taken, come back after the visibility, unless they are
// acknowledged. It complains in the book.
func NewInbox(b *Book, visibility time.Duration) *Inbox {
	return &Inbox{book: b, visibility: visibility, shown: make(map[string]*showing), told: make(map[string]string), owed: make(map[string]bool)}
}

// Owe notes that an agent has to be told a line.
func (i *Inbox) Owe(agent, line string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.owed[agent+" "+line] = true
}

// Show notes that a trigger was handed to an agent by a poll. Another poll may not have it while it is not
// visible, and none once it was acknowledged. once says that no other trigger tells the agent the line.
func (i *Inbox) Show(agent, taker, id, line string, once bool) (first bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	before, known := i.shown[id]
	switch {
	case !known:
		before = &showing{line: line}
		i.shown[id] = before
		if other := i.told[agent+" "+line]; other != "" && once {
			i.book.Complain("%s is told %q as %s and as %s", agent, line, other, id)
		}
		i.told[agent+" "+line] = id
	case before.done == Acked:
		i.book.Complain("%q comes back to %s after it was acknowledged", before.line, agent)
	case before.taker != taker && now.Sub(before.at) < i.visibility-2*time.Second:
		i.book.Complain("%q is handed to another poll of %s %v after the last one", before.line, agent, now.Sub(before.at))
	}
	before.taker, before.at = taker, now
	return !known
}

// Ack notes how far the acknowledgement of triggers came.
func (i *Inbox) Ack(ids []string, how Ack) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range ids {
		i.shown[id].done = max(i.shown[id].done, how)
	}
}

// Open returns the triggers that were handed out last within that time. It complains about those that
// were not, and not acknowledged either: they did not come back.
func (i *Inbox) Open(within time.Duration) (ids []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, t := range i.shown {
		if time.Since(t.at) <= within {
			ids = append(ids, id)
		} else if t.done == Unacked {
			i.book.Complain("%q did not come back: it was told %v ago, and not acknowledged", t.line, time.Since(t.at))
		}
	}
	return ids
}

// CheckTold complains about what was owed and never told.
func (i *Inbox) CheckTold() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for line := range i.owed {
		if i.told[line] == "" {
			i.book.Complain("never told: %s", fmt.Sprintf("%q", line))
		}
	}
}
