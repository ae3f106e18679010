package owed

import (
	"errors"
	"sync"
	"time"

	"dibs/internal/claim"
)

// Fate is what became of something that was sent.
type Fate int

const (
	// InDoubt: it may be in Notion, or come yet. It is looked for, and not sent again.
	InDoubt Fate = iota
	// Arrived: it is in Notion.
	Arrived
	// Absent: it is not in Notion, and does not come there by itself any more.
	Absent
	// Gone: it cannot be in Notion, whenever it is tried.
	Gone
)

const (
	// Doubt is how long what cannot be found may still appear: Notion gives up on a request
	// after a minute, and its queries have been seen two minutes behind.
	Doubt = 3 * time.Minute
	// FirstLookup is when something in doubt is first looked for, and LookupEvery how long
	// until the next time, where nobody waits for it.
	FirstLookup = 5 * time.Second
	LookupEvery = 30 * time.Second
	// Late is how long after it was saved that something is being sent it may still be sent:
	// whoever stood still for longer may be taken for dead by another daemon, which looks for
	// it, and sends it itself when it is in doubt no more.
	Late = time.Minute
)

// Doubts tells what became of what this process sends, and of what an earlier one may have sent.
// It is safe for concurrent use.
//
// No time that it goes by jumps when the machine's clock is set. By which clock an earlier process
// stored a time it does not know: what that sent is taken to be sent when this one began.
type Doubts struct {
	began time.Time

	mu   sync.Mutex
	sent map[string]time.Time // by id, of what is in doubt
}

// NewDoubts returns the doubts of a process that begins now.
func NewDoubts() *Doubts { return &Doubts{began: time.Now(), sent: make(map[string]time.Time)} }

// Now is the time that does not jump.
func (d *Doubts) Now() time.Time { return d.began.Add(time.Since(d.began)) }

// Sent says what became of the one request by which something was sent, which ended so. That counts
// as when it was sent: it may have waited long for its turn.
func (d *Doubts) Sent(id string, err error) Fate {
	failed, known := errors.AsType[*claim.StoreError](err)
	fate := InDoubt
	switch {
	case err == nil, known && failed.Landed == claim.LandedYes:
		fate = Arrived
	case isGone(err):
		fate = Gone
	case known && failed.Landed == claim.LandedNo:
		fate = Absent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent[id] = d.Now(); fate != InDoubt {
		delete(d.sent, id)
	}
	return fate
}

// Sought says what became of something that was looked for, and for how long it stays in doubt if
// it is not found. Where it could not be looked for, it does.
func (d *Doubts) Sought(id string, found bool, err error) (fate Fate, left time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sent, known := d.sent[id]
	if !known {
		sent = d.began
	}
	left = max(0, Doubt-d.Now().Sub(sent))
	switch {
	case isGone(err):
		fate = Gone
	case err != nil, !found && left > 0:
		return InDoubt, left
	case found:
		fate = Arrived
	default:
		fate = Absent
	}
	delete(d.sent, id)
	return fate, 0
}

func isGone(err error) bool {
	_, gone := errors.AsType[*GoneError](err)
	return gone
}
