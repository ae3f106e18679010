package owed

import (
	"context"
	"errors"
	"time"

	"dibs/internal/clock"
)

// Sender puts one intent at a time into Notion, once. It is safe for concurrent use, but of one
// intent by one caller at a time.
type Sender struct {
	ledger Ledger
	doubts *Doubts
}

// NewSender returns a sender of a process that begins now.
func NewSender(l Ledger) *Sender { return &Sender{l, NewDoubts()} }

// Outcome is what has become of an intent.
type Outcome struct {
	Fate Fate
	// Ref is what it has become, if it has arrived and that is known.
	Ref string
	// Left is how long it stays in doubt, if it does; zero if it could not be looked for.
	Left time.Duration
	// Err is why it has not arrived, or why that is not known; nil if it only was not found.
	Err error
}

// send sends an intent that is due, or in doubt and known not to be there. It is saved first: where
// that fails, which is the error, nothing is sent.
func (s *Sender) send(ctx context.Context, in Intent, effect Effect) (Outcome, error) {
	for {
		noted := s.doubts.Now()
		if err := s.ledger.MarkSending(ctx, in, noted); err != nil {
			return Outcome{Fate: Absent}, err
		}
		if s.doubts.Now().Sub(noted) <= Late {
			break
		}
		// What was saved so long ago is not to be relied on, and is saved anew.
		if err := s.ledger.Retry(ctx, in, s.doubts.Now(), nil); err != nil {
			return Outcome{Fate: Absent}, err
		}
	}
	ref, err := effect.Send(ctx, in)
	return Outcome{Fate: s.doubts.Sent(in.ID, err), Ref: ref, Left: Doubt, Err: err}, nil
}

// Seek looks for an intent in doubt, while ctx lasts. If it is there, that is saved. The error is
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

// lookups are the waits before each look for an intent whose answer was lost, while somebody waits
// for it.
var lookups = []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second}

// Deliver sends an intent that is known not to be in Notion, for somebody who waits for it, and
// looks for it a few times if that leaves it in doubt, while ctx lasts. What is known by the end is
// saved, whether ctx has ended or not: an intent that Notion did not take is dropped. The error is
// the ledger's: nothing was sent if the intent is absent and the outcome does not say why.
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
	if err := s.ledger.MarkInDoubt(note, in, s.doubts.Now(), o.Err); err != nil {
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
