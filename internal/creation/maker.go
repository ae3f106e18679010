package creation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/keylock"
	"dibs/internal/task"
)

// doubt is how long a creation that cannot be found may still appear: Notion gives up on
// a request after a minute, and its queries have been seen two minutes behind.
const doubt = 3 * time.Minute

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

	locks keylock.Locks[string]
	began time.Time

	mu   sync.Mutex
	sent map[string]time.Time // when this process last had sent each creation of unknown fate
}

// New returns a maker. observe is told of each page that was made, before Make returns.
func New(storage Storage, tasks Tasks, observe func(claim.Reading), log *slog.Logger) *Maker {
	return &Maker{storage: storage, tasks: tasks, observe: observe, log: log, began: time.Now(), sent: make(map[string]time.Time)}
}

// Request asks for a task.
type Request struct {
	Draft task.Draft
	// UID and Key are as in a Creation; without a key, each request is another one.
	UID         int
	Key         string
	Fingerprint string
}

// Make makes a task, or returns the one that was made for the same request before; fresh
// says which. The error is ErrReused, one of Tasks.Plan, or a *claim.StoreError; nothing
// was made then, unless it is an *UnknownError.
func (m *Maker) Make(ctx context.Context, r Request) (made task.Task, fresh bool, err error) {
	id := claim.NewEventID(m.tasks.Now())
	keyed := r.Key != ""
	if !keyed {
		r.Key = "new " + id
	}
	unlock, err := m.locks.Lock(ctx, fmt.Sprint(r.UID, " ", r.Key))
	if err != nil {
		return task.Task{}, false, err
	}
	defer unlock()
	c, known, err := m.storage.Creation(ctx, r.UID, r.Key)
	switch {
	case err != nil:
		return task.Task{}, false, err
	case known && c.Fingerprint != r.Fingerprint:
		return task.Task{}, false, ErrReused
	case known && c.Page != "":
		read, err := m.tasks.Get(ctx, c.Page)
		if err == nil {
			m.observe(read)
		}
		return read.Task, false, err
	case known:
		switch t, found, err := m.look(ctx, c, r.Draft.Title); {
		case err != nil:
			return task.Task{}, false, unknown(r.Draft.Title, keyed, 0, err)
		case found:
			return t, true, nil
		}
		if left := doubt - time.Since(m.sentAt(c.ID)); left > 0 {
			return task.Task{}, false, unknown(r.Draft.Title, keyed, left, nil)
		}
	}
	plan, err := m.tasks.Plan(ctx, r.Draft)
	if err != nil {
		return task.Task{}, false, err
	}
	if !known {
		c = Creation{ID: id, UID: r.UID, Key: r.Key, Fingerprint: r.Fingerprint, At: m.tasks.Now()}
	}
	if err := m.storage.BeginCreation(ctx, c); err != nil {
		return task.Task{}, false, err
	}
	made, err = m.send(ctx, c, plan, r.Draft.Title, keyed)
	return made, err == nil, err
}

// send sends a creation that is known not to be there.
func (m *Maker) send(ctx context.Context, c Creation, plan Plan, title string, keyed bool) (task.Task, error) {
	read, err := plan.Create(ctx, c.ID)
	// Whoever asked may be gone by now: what is begun is brought to its end.
	ctx = context.WithoutCancel(ctx)
	// Only now: it may have waited long for its turn.
	m.mu.Lock()
	m.sent[c.ID] = time.Now()
	m.mu.Unlock()
	var saved *SavedError
	var failed *claim.StoreError
	switch {
	case err == nil:
		return m.keep(ctx, c, read)
	case errors.As(err, &saved):
		if read, rerr := m.tasks.Get(ctx, saved.Page); rerr == nil {
			return m.keep(ctx, c, read)
		}
	case errors.As(err, &failed) && failed.Landed == claim.LandedNo:
		m.forget(c)
		not := *failed
		not.Err = fmt.Errorf("%q was not made: %w", title, failed.Err)
		return task.Task{}, errors.Join(&not, m.storage.DropCreation(ctx, c.ID))
	}
	m.log.Info("the fate of a task that was to be made is unknown; it is looked up", "title", title, "entry", c.ID, "error", err)
	for _, wait := range lookups {
		time.Sleep(wait)
		t, found, lerr := m.look(ctx, c, title)
		if lerr == nil && found {
			return t, nil
		}
		if lerr != nil {
			return task.Task{}, unknown(title, keyed, 0, err)
		}
	}
	return task.Task{}, unknown(title, keyed, doubt-time.Since(m.sentAt(c.ID)), err)
}

// look looks for a creation of unknown fate.
func (m *Maker) look(ctx context.Context, c Creation, title string) (t task.Task, found bool, err error) {
	pages, err := m.tasks.Find(ctx, Sought{ID: c.ID, Title: title, Since: c.At})
	if err != nil {
		return task.Task{}, false, err
	}
	for _, p := range pages {
		ok, err := m.storage.Created(ctx, c.ID, p.Task.ID)
		if err != nil {
			return task.Task{}, false, err
		}
		if !ok {
			continue
		}
		m.forget(c)
		// The query may be behind: somebody may have claimed the task since.
		if read, err := m.tasks.Get(ctx, p.Task.ID); err == nil {
			m.observe(read)
			return read.Task, true, nil
		}
		return p.Task, true, nil
	}
	return task.Task{}, false, nil
}

// keep notes that a creation is there.
func (m *Maker) keep(ctx context.Context, c Creation, read claim.Reading) (task.Task, error) {
	_, err := m.storage.Created(ctx, c.ID, read.Task.ID)
	m.observe(read)
	m.forget(c)
	if err != nil {
		// It was made all the same, and is found by its id if the request comes again.
		m.log.Error("that a task was made could not be stored", "task", read.Task.ID, "error", err)
	}
	return read.Task, nil
}

// sentAt is a time after which a creation was not sent, by a clock that does not jump: of
// an earlier process it is not known when it sent it.
func (m *Maker) sentAt(id string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.sent[id]; ok {
		return at
	}
	return m.began
}

func (m *Maker) forget(c Creation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sent, c.ID)
}

// unknown is the error of a creation of which it is not known whether it is there. left
// is how long until it would be sent again; zero if it could not be looked up.
func unknown(title string, keyed bool, left time.Duration, why error) *UnknownError {
	how := "look on the board before you make it again"
	if keyed {
		how = "ask again with the same request id: then it is found, or made once"
	}
	err := fmt.Errorf("whether %q was made is not known yet: %s", title, how)
	if why != nil {
		err = fmt.Errorf("whether %q was made is not known yet: %s: %w", title, how, why)
	}
	return &UnknownError{&claim.StoreError{Kind: claim.Unavailable, Landed: claim.LandedUnknown, RetryAfter: min(max(0, left), retryIn), Err: err}}
}
