package outbox

import (
	"context"
	"time"

	"dibs/internal/claim"
)

// Receiver makes a queue one of notices, to a receiver outside of Notion. Its Entries put an intent
// and those With it into one message, and report every failure as claim.LandedNo: nothing can be
// looked up there.
type Receiver struct {
	Name string // for people, without secrets
	// Gather is how long a notice waits for others that go into the same message.
	Gather time.Duration
	// Keep is how long after its fact a notice is given up.
	Keep time.Duration
}

// Tally counts what became of a queue's intents since the queue was made.
type Tally struct {
	Sent    int
	Failed  int // requests
	GivenUp int // after Receiver.Keep
}

// Tally returns the counts, and the name of the queue's receiver; empty for a queue to Notion.
func (q *Queue) Tally() (receiver string, t Tally) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.config.To != nil {
		receiver = q.config.To.Name
	}
	return receiver, q.tally
}

// gather returns what to deliver now of the intents that may be tried: those in doubt, and the
// others as one, once they have waited for more. It gives up those that are too old.
func (q *Queue) gather(ctx context.Context, all []Intent) ([]Intent, error) {
	var now, due, old []Intent
	for _, in := range all {
		switch {
		case q.now().Sub(in.At) > q.config.To.Keep:
			old = append(old, in)
		case in.State == Doubted:
			now = append(now, in)
		default:
			due = append(due, in)
		}
	}
	if err := q.expire(ctx, old); err != nil || len(due) == 0 || q.holds() {
		return now, err
	}
	return append(now, together(due)), nil
}

// together returns the intents as one; there is at least one.
func together(all []Intent) Intent {
	first := all[0]
	first.With = all[1:]
	return first
}

// holds reports whether notices that could be sent wait for more, and begins that wait. After a
// failure they have waited enough.
func (q *Queue) holds() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holding || q.pauses > 0 {
		q.holding = false
		return false
	}
	q.holding, q.until = true, q.now().Add(q.config.To.Gather)
	return true
}

// expire gives notices up. That they failed says nothing about the others.
func (q *Queue) expire(ctx context.Context, old []Intent) error {
	if len(old) == 0 {
		return nil
	}
	if err := q.ledger.Delivered(context.WithoutCancel(ctx), together(old), "", time.Now()); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range old {
		delete(q.intents, in.ID)
		delete(q.failing, in.ID)
	}
	q.tally.GivenUp += len(old)
	q.config.Log.Warn("notices are given up: they are too old; dibs log has what they told of", claim.AttrEvent, claim.EventGivenUp, "receiver", q.config.To.Name,
		claim.AttrCount, len(old), claim.AttrError, q.why)
	return nil
}
