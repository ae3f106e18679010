package creation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/owed"
	"dibs/internal/task"
)

// lookups are the waits before each look for a creation whose answer was lost, while the
// caller waits.
var lookups = []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second}

// retryIn is the longest time after which it makes sense to ask again.
const retryIn = 30 * time.Second

// Maker makes tasks. It is safe for concurrent use.
type Maker struct {
	storage Storage
	tasks   Tasks
	observe func(claim.Reading)
	log     *slog.Logger

	doubts *owed.Doubts
}

// New returns a maker. observe is told of each page that was made, before Make returns.
func New(storage Storage, tasks Tasks, observe func(claim.Reading), log *slog.Logger) *Maker {
	return &Maker{storage: storage, tasks: tasks, observe: observe, log: log, doubts: owed.NewDoubts()}
}

// Request asks for a task.
type Request struct {
	Draft  task.Draft
	Lookup Lookup
	// Key is the request's idempotency key, and UID the user whose key it is. No two requests of
	// one key are made at a time; without a key, each request is another one.
	UID int
	Key string
}

// Make makes a task, or returns the one that was made for the same request before; fresh
// says which. The error is one of Tasks.Plan, or a *claim.StoreError; nothing was made then,
// unless it is an *UnknownError.
func (m *Maker) Make(ctx context.Context, r Request) (made task.Task, fresh bool, err error) {
	var c Creation
	known := false
	if r.Key != "" {
		if c, known, err = m.storage.Creation(ctx, r.UID, r.Key); err != nil {
			return task.Task{}, false, err
		}
	}
	switch {
	case known && c.Page != "":
		read, err := m.tasks.Get(ctx, c.Page)
		if err == nil {
			m.observe(read)
		}
		return read.Task, false, err
	case known:
		switch t, fate, left, err := m.look(ctx, c, r.Draft.Title); {
		case fate == owed.Arrived && err == nil:
			return t, true, nil
		case fate == owed.InDoubt || err != nil:
			return task.Task{}, false, r.unknown(left, err)
		}
	}
	plan, err := m.tasks.Plan(ctx, r.Draft, r.Lookup)
	if err != nil {
		return task.Task{}, false, err
	}
	if !known {
		now := m.tasks.Now()
		c = Creation{ID: claim.NewEventID(now), At: now}
	}
	if err := m.storage.BeginCreation(ctx, c, r.UID, r.Key); err != nil {
		return task.Task{}, false, err
	}
	made, err = m.send(ctx, c, plan, r)
	return made, err == nil, err
}

// Get reads the page of a task. The error is a *claim.StoreError.
func (m *Maker) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	return m.tasks.Get(ctx, id)
}

// send sends a creation that is known not to be there. Whoever asked may be gone by the time of
// the answer: what is known then is stored all the same.
func (m *Maker) send(ctx context.Context, c Creation, plan Plan, r Request) (task.Task, error) {
	read, err := plan.Create(ctx, c.ID)
	note := context.WithoutCancel(ctx)
	fate := m.doubts.Sent(c.ID, err)
	var saved *SavedError
	switch {
	case err == nil:
		return m.keep(note, c, read)
	case errors.As(err, &saved):
		if read, rerr := m.tasks.Get(note, saved.Page); rerr == nil {
			return m.keep(note, c, read)
		}
	case fate == owed.Absent:
		failed, _ := errors.AsType[*claim.StoreError](err)
		not := *failed
		not.Err = fmt.Errorf("%q was not made: %w", r.Draft.Title, failed.Err)
		return task.Task{}, errors.Join(&not, m.storage.DropCreation(note, c.ID, r.UID, r.Key))
	}
	m.log.Info("the fate of a task that was to be made is unknown; it is looked up", "title", r.Draft.Title, "entry", c.ID, "error", err)
	left := owed.Doubt
	for _, wait := range lookups {
		if clock.Pause(ctx, wait) != nil {
			break
		}
		var t task.Task
		var lerr error
		if t, fate, left, lerr = m.look(note, c, r.Draft.Title); fate == owed.Arrived && lerr == nil {
			return t, nil
		} else if lerr != nil {
			left = 0
			break
		}
	}
	return task.Task{}, r.unknown(left, err)
}

// look looks for a creation in doubt. left is how long it stays that, if it is not found.
func (m *Maker) look(ctx context.Context, c Creation, title string) (t task.Task, fate owed.Fate, left time.Duration, err error) {
	pages, err := m.tasks.Find(ctx, Sought{ID: c.ID, Title: title, Since: c.At})
	for _, p := range pages {
		ok, err := m.storage.Created(ctx, c.ID, p.Task.ID)
		if err != nil {
			return task.Task{}, owed.InDoubt, 0, err
		}
		if !ok {
			continue
		}
		fate, _ = m.doubts.Sought(c.ID, true, nil)
		// The query may be behind: somebody may have claimed the task since.
		if read, err := m.tasks.Get(ctx, p.Task.ID); err == nil {
			m.observe(read)
			return read.Task, fate, 0, nil
		}
		return p.Task, fate, 0, nil
	}
	if fate, left = m.doubts.Sought(c.ID, false, err); err != nil {
		left = 0
	}
	return task.Task{}, fate, left, err
}

// keep notes that a creation is there.
func (m *Maker) keep(ctx context.Context, c Creation, read claim.Reading) (task.Task, error) {
	_, err := m.storage.Created(ctx, c.ID, read.Task.ID)
	m.observe(read)
	if err != nil {
		// It was made all the same, and is found by its id if the request comes again.
		m.log.Error("that a task was made could not be stored", "task", read.Task.ID, "error", err)
	}
	return read.Task, nil
}

// unknown is the error of a creation of which it is not known whether it is there. left
// is how long until it would be sent again; zero if it could not be looked up.
func (r Request) unknown(left time.Duration, why error) *UnknownError {
	title, how := r.Draft.Title, "look on the board before you make it again"
	if r.Key != "" {
		how = "ask again with the same request id: then it is found, or made once"
	}
	err := fmt.Errorf("whether %q was made is not known yet: %s", title, how)
	if why != nil {
		err = fmt.Errorf("whether %q was made is not known yet: %s: %w", title, how, why)
	}
	return &UnknownError{&claim.StoreError{Kind: claim.Unavailable, Landed: claim.LandedUnknown, RetryAfter: min(max(0, left), retryIn), Err: err}}
}
