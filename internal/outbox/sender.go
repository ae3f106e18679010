package outbox

import (
	"context"
	"errors"
	"time"

	"dibs/internal/kit/clock"
)

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
