package outbox

import (
	"errors"
	"sync"
	"time"

	"dibs/internal/claim"
)

// Fate is what became of an intent that was sent.
type Fate int

const (
	// InDoubt: it may be in Notion, or still get there. It is looked up, not sent again.
	InDoubt Fate = iota
	// Arrived: it is in Notion.
	Arrived
	// Absent: it is not in Notion, and no request under way can still put it there.
	Absent
	// Gone: it can never be in Notion. Trying again is useless.
	Gone
)

const (
	// Doubt is how long an intent that is not found may still appear: Notion gives up on a
	// request after a minute, and its queries have been seen two minutes behind.
	Doubt = 3 * time.Minute
	// FirstLookup is when an intent in doubt is first looked up, and LookupEvery the time
	// between lookups, if nobody waits for it.
	FirstLookup = 5 * time.Second
	LookupEvery = 30 * time.Second
	// Late is how old the note that an intent is being sent may be when it is sent. A process
	// that was paused for longer may count as dead: another daemon then looks the intent up, and
	// sends it itself once it is no longer in doubt.
	Late = time.Minute
)

// Doubts decides the fate of intents that this process sends, or that an earlier one may have
// sent. It is safe for concurrent use.
//
// Its times do not jump when the machine's clock is set. It cannot trust the times that an earlier
// process stored: an intent sent by that counts as sent when this process began.
type Doubts struct {
	began time.Time

	mu   sync.Mutex
	sent map[string]time.Time // when intents in doubt were sent, by id
}

// NewDoubts returns the doubts of a process that begins now.
func NewDoubts() *Doubts { return &Doubts{began: time.Now(), sent: make(map[string]time.Time)} }

// Now returns the time, by a clock that does not jump.
func (d *Doubts) Now() time.Time { return d.began.Add(time.Since(d.began)) }

// Sent returns the fate of an intent whose one request ended with err. The intent counts as sent
// at the end of the request, which may have waited long for its turn.
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

// Sought returns the fate of an intent after a lookup, and for how long it stays in doubt if it was
// not found. It also stays in doubt if the lookup failed.
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
