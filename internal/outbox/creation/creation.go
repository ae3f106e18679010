// Package creation creates tasks, each once.
//
// Each is an intent, see package outbox. Its id is saved with the request's idempotency key before
// anything is sent, and the new page has it as its claim token until somebody claims the task. A
// creation in doubt (no answer, a 409, a 5xx, a daemon that was killed) is looked up by that id, at
// once and whenever the request is repeated. It is sent again only when the request is repeated.
//
// Nothing is created behind the caller's back. A task that does not exist when the caller gets its
// answer is created when the caller asks again, or never.
//
// If somebody has changed the page's token, the page is recognised by its title, its creator and the minute of its creation, unless it belongs to another creation
// here. This can confuse two tasks: if several daemons with one connection create tasks of the same
// title within minutes, and the answers are lost, they may be taken for one.
package creation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/task"
)

// Plan is a draft in the terms of the database, ready to be sent.
type Plan interface {
	// Create creates the page in one request. It repeats the request only if it is certain
	// that nothing was created. If ctx ends first, nothing is sent. The error is a
	// *claim.StoreError.
	Create(ctx context.Context, id string) (claim.Reading, error)
}

// UnknownError says that it is not known whether a task was created. The caller finds out by
// repeating the request with its key.
type UnknownError struct{ Err *claim.StoreError }

func (e *UnknownError) Error() string { return e.Err.Error() }

func (e *UnknownError) Unwrap() error { return e.Err }

// Sought is a creation to look up.
type Sought struct {
	ID    string
	Title string
	Since time.Time // when it was first sent
}

// Lookup resolves the names in a draft.
type Lookup interface {
	// Person returns the id of the Notion user with that name, e-mail address or id.
	Person(ctx context.Context, who string) (id string, err error)
	// Named returns the task with that key, id or URL.
	Named(ctx context.Context, name string) (task.ID, error)
}

// Tasks is the database in which tasks are created.
type Tasks interface {
	// Plan prepares a draft. The error is a *task.DraftError if the draft cannot be written, a
	// *claim.StoreError if that cannot be found out now, or an error of l.
	Plan(ctx context.Context, d task.Draft, l Lookup) (Plan, error)
	// Find looks up a creation, with a query that may lag behind. A page with the creation's
	// id comes first.
	Find(ctx context.Context, s Sought) ([]claim.Reading, error)
	// Get reads a page.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
	// Now is Notion's time.
	Now() time.Time
}

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

// page is the page of a task that is being created.
type page struct {
	*Maker
	title string
	plan  Plan
	// found has the pages that it may be. behind is set if they come from a query, which may lag.
	found  []claim.Reading
	behind bool
}

var _ outbox.Effect = (*page)(nil)

// Send implements outbox.Effect: it creates the page. If Notion created the page but did not say
// which, the creation is in doubt until the page is found.
func (p *page) Send(ctx context.Context, in outbox.Intent) (ref string, err error) {
	read, err := p.plan.Create(ctx, in.ID)
	if err == nil {
		p.found = []claim.Reading{read}
		return string(read.Task.ID), nil
	}
	failed, ok := errors.AsType[*claim.StoreError](err)
	if ok && failed.Landed == claim.LandedNo {
		return "", err
	}
	p.log.Info("the fate of a task that was to be made is unknown; it is looked up", claim.AttrTitle, claim.Brief(p.title), "entry", in.ID, claim.AttrError, err)
	if ok {
		unknown := *failed
		unknown.Landed = claim.LandedUnknown
		err = &unknown
	}
	return "", err
}

// Find implements outbox.Effect.
func (p *page) Find(ctx context.Context, in outbox.Intent) (refs []string, err error) {
	p.found, err = p.tasks.Find(ctx, Sought{ID: in.ID, Title: p.title, Since: in.At})
	p.behind = true
	for _, read := range p.found {
		refs = append(refs, string(read.Task.ID))
	}
	return refs, err
}

// show returns the task of the page.
func (p *page) show(ctx context.Context, ref string) task.Task {
	i := slices.IndexFunc(p.found, func(r claim.Reading) bool { return r.Task.ID == task.ID(ref) })
	read := p.found[i]
	if p.behind { // somebody may have claimed the task since
		now, err := p.tasks.Get(ctx, read.Task.ID)
		if err != nil {
			return read.Task
		}
		read = now
	}
	p.observe(read)
	return read.Task
}
