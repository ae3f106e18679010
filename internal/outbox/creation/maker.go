package creation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"
)

// retryIn is the longest wait that a caller is told before asking again.
const retryIn = 30 * time.Second

// Maker creates tasks. It is safe for concurrent use.
type Maker struct {
	ledger  outbox.Ledger
	tasks   Tasks
	observe func(claim.Reading)
	log     *slog.Logger

	sender *outbox.Sender
}

// New returns a maker. It calls observe with each new page before Make returns.
func New(l outbox.Ledger, tasks Tasks, observe func(claim.Reading), log *slog.Logger) *Maker {
	return &Maker{ledger: l, tasks: tasks, observe: observe, log: log, sender: outbox.NewSender(l)}
}

// Get reads the page of a task. The error is a *claim.StoreError.
func (m *Maker) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return m.tasks.Get(ctx, id)
}

// Request asks for a task.
type Request struct {
	Draft  task.Draft
	Lookup Lookup
	// Key is the request's idempotency key, and UID the key's user. The caller makes one request
	// with a key at a time. Without a key, every request is a new one.
	UID int
	Key string
}

// Make creates a task, or returns the one that an earlier call created for the same request;
// fresh says which. The error is one of Tasks.Plan's, a *claim.StoreError, or one of the ledger.
// Nothing was created then, unless it is an *UnknownError.
func (m *Maker) Make(ctx context.Context, r Request) (made task.Task, fresh bool, err error) {
	var in outbox.Intent
	known := false
	if r.Key != "" {
		if in, known, err = m.ledger.OwedFor(ctx, r.UID, r.Key); err != nil {
			return task.Task{}, false, err
		}
	}
	p := &page{Maker: m, title: r.Draft.Title}
	for {
		switch {
		case in.State == outbox.Delivered:
			read, err := m.tasks.Get(ctx, task.ID(in.Ref))
			if err == nil {
				m.observe(read)
			}
			return read.Task, false, err
		case known && in.State != outbox.Due:
			if made, done, err := m.found(ctx, r, in, p); done || err != nil {
				return made, done, err
			}
		}
		if p.plan, err = m.tasks.Plan(ctx, r.Draft, r.Lookup); err != nil {
			return task.Task{}, false, err
		}
		if known {
			break
		}
		now := m.tasks.Now()
		in = outbox.Intent{ID: r.id(now), Kind: outbox.Creation, At: now, UID: r.UID, Key: r.Key}
		if in, err = m.ledger.Owe(ctx, in); err != nil {
			return task.Task{}, false, err
		}
		if known = true; in.State == outbox.Due {
			break
		} // else it was owed before, or may have been
	}
	o, err := m.sender.Deliver(ctx, in, p)
	switch {
	case o.Fate == outbox.Arrived:
		if err != nil {
			// The task exists all the same. If the request is repeated, it is found by its id.
			m.log.Error("that a task was made could not be stored; a repeated request finds it", claim.AttrTask, o.Ref, claim.AttrError, err)
		}
		return p.show(ctx, o.Ref), true, nil
	case o.Fate == outbox.InDoubt:
		return task.Task{}, false, r.unknown(o)
	case o.Err == nil: // the ledger failed before anything was sent
		return task.Task{}, false, err
	}
	failed, _ := errors.AsType[*claim.StoreError](o.Err)
	not := *failed
	not.Err = fmt.Errorf("%q was not made: %w", r.Draft.Title, failed.Err)
	return task.Task{}, false, errors.Join(&not, err)
}

// found looks up a creation in doubt. It returns the task, or false and no error if there is none, and
// it may be sent.
func (m *Maker) found(ctx context.Context, r Request, in outbox.Intent, p *page) (task.Task, bool, error) {
	switch o, err := m.sender.Seek(ctx, in, p); {
	case err == nil && o.Fate == outbox.Arrived:
		return p.show(ctx, o.Ref), true, nil
	case err != nil || o.Fate == outbox.InDoubt:
		return task.Task{}, false, r.unknown(o)
	}
	return task.Task{}, false, m.ledger.Retry(ctx, in, time.Time{}, nil)
}

// id returns the id of the creation: the same one for the same request under a key, also if the
// ledger has lost the first.
func (r Request) id(now time.Time) string {
	if r.Key == "" {
		return claim.NewFactID(now)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %+v", r.UID, r.Key, r.Draft))
	return fmt.Sprintf("%x", sum[:13])
}

// unknown returns the error for a creation in doubt.
func (r Request) unknown(o outbox.Outcome) *UnknownError {
	title, how := r.Draft.Title, "look on the board before you make it again"
	if r.Key != "" {
		how = "ask again with the same request id: then it is found, or made once"
	}
	err := fmt.Errorf("whether %q was made is not known yet: %s", title, how)
	if o.Err != nil {
		err = fmt.Errorf("whether %q was made is not known yet: %s: %w", title, how, o.Err)
	}
	return &UnknownError{&claim.StoreError{Kind: claim.Unavailable, Landed: claim.LandedUnknown, RetryAfter: min(o.Left, retryIn), Err: err}}
}
