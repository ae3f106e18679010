package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
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

// Sender puts one intent into Notion, once. It is safe for concurrent use with different intents.
type Sender struct {
	ledger Ledger
	doubts *Doubts
}

// NewSender returns a sender for a process that begins now.
func NewSender(l Ledger) *Sender { return &Sender{l, NewDoubts()} }

// Outcome is the result of sending an intent or looking it up.
type Outcome struct {
	Fate Fate
	// Ref is what it has become, if it has arrived and that is known.
	Ref string
	// Left is how long it stays in doubt, if it does; zero if the lookup failed.
	Left time.Duration
	// Err is why it has not arrived, or why that is not known; nil if the lookup just did not
	// find it.
	Err error
}

// send sends an intent that is not in Notion. It notes that in the ledger first. The error is the
// ledger's: nothing was sent then.
func (s *Sender) send(ctx context.Context, in Intent, effect Effect) (Outcome, error) {
	for {
		noted := s.doubts.Now()
		if err := s.ledger.StartSending(ctx, in, noted); err != nil {
			return Outcome{Fate: Absent}, err
		}
		if s.doubts.Now().Sub(noted) <= Late {
			break
		}
		// The process was paused: the note is too old to rely on, so it is made anew.
		if err := s.ledger.Retry(ctx, in, s.doubts.Now(), nil); err != nil {
			return Outcome{Fate: Absent}, err
		}
	}
	ref, err := effect.Send(ctx, in)
	return Outcome{Fate: s.doubts.Sent(in.ID, err), Ref: ref, Left: Doubt, Err: err}, nil
}

// Seek looks up an intent in doubt, while ctx lasts. If it has arrived, Seek saves that. The error is
// the ledger's.
func (s *Sender) Seek(ctx context.Context, in Intent, effect Effect) (Outcome, error) {
	refs, failed := effect.Find(ctx, in)
	for _, ref := range refs {
		switch err := s.ledger.Delivered(context.WithoutCancel(ctx), in, ref, time.Now()); {
		case errors.Is(err, ErrTaken):
		case err != nil:
			return Outcome{Err: err}, err
		default:
			s.doubts.Sought(in.ID, true, nil)
			return Outcome{Fate: Arrived, Ref: ref}, nil
		}
	}
	fate, left := s.doubts.Sought(in.ID, false, failed)
	if failed != nil {
		left = 0
	}
	return Outcome{Fate: fate, Left: left, Err: failed}, nil
}

// lookups are the waits before each lookup of an intent in doubt, for a caller that waits.
var lookups = []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second}

// Deliver sends an intent that is not in Notion, for a caller that waits. If that leaves it in
// doubt, Deliver looks it up a few times, while ctx lasts. It saves the result even after ctx has
// ended. An intent that Notion did not take is dropped. The error is the ledger's; with Fate Absent
// and a nil Outcome.Err, nothing was sent.
func (s *Sender) Deliver(ctx context.Context, in Intent, effect Effect) (Outcome, error) {
	o, err := s.send(ctx, in, effect)
	if err != nil {
		return o, err
	}
	note := context.WithoutCancel(ctx)
	switch o.Fate {
	case Arrived:
		return o, s.ledger.Delivered(note, in, o.Ref, time.Now())
	case Absent, Gone:
		return o, s.ledger.Drop(note, in)
	}
	if err := s.ledger.NoteInDoubt(note, in, s.doubts.Now(), o.Err); err != nil {
		return o, err
	}
	for _, wait := range lookups {
		if clock.Pause(ctx, wait) != nil {
			break
		}
		sought, err := s.Seek(ctx, in, effect)
		if sought.Fate == Arrived {
			return sought, nil
		}
		if o.Left = sought.Left; err != nil || sought.Err != nil {
			return o, err
		}
	}
	return o, nil
}
