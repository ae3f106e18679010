package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/journal"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// creations is the tasks database as tasks are made in it.
type creations struct {
	*notion.Tasks
	lookup func() notion.Lookup // the broker is made last
}

// Plan implements creation.Tasks.
func (c creations) Plan(ctx context.Context, d task.Draft) (creation.Plan, error) {
	p, err := c.Tasks.Plan(ctx, d, c.lookup())
	if err != nil {
		return nil, err
	}
	return plan{p}, nil
}

// Find implements creation.Tasks.
func (c creations) Find(ctx context.Context, s creation.Sought) ([]creation.Found, error) {
	pages, err := c.FindNew(ctx, s.ID, s.Title, s.Since)
	found := make([]creation.Found, len(pages))
	for i, p := range pages {
		found[i] = creation.Found(p)
	}
	return found, err
}

// maker makes tasks and reads their pages.
type maker struct {
	*creation.Maker
	*notion.Tasks
}

func (d *works) newMaker() maker {
	lookup := func() notion.Lookup { return notion.Lookup{Person: d.broker.Person, Task: d.broker.Named} }
	storage := creation.Storage(d.journal)
	if d.member != nil {
		storage = sharedCreations{d.journal, d.member.repeats}
	}
	return maker{creation.New(storage, creations{d.tasks, lookup}, d.mirror.Observe, d.log), d.tasks}
}

// sharedCreations are the creations of a member of a cluster: one that it has begun can be
// found by the member that goes on with its request.
type sharedCreations struct {
	*journal.Journal
	repeats *repeats
}

// noted is what is remembered of a creation in the cluster.
type noted struct {
	ID          string    `json:"id"`
	Fingerprint string    `json:"fingerprint"`
	At          time.Time `json:"at"`
	Member      string    `json:"member"` // that may have sent it last
}

// isNoted reports whether a note is of that creation.
func isNoted(note, id string) bool {
	var n noted
	return json.Unmarshal([]byte(note), &n) == nil && n.ID == id
}

// Creation implements creation.Storage.
func (s sharedCreations) Creation(ctx context.Context, uid int, key string) (creation.Creation, bool, error) {
	c, ok, err := s.Journal.Creation(ctx, uid, key)
	if err != nil || ok && c.Page != "" {
		return c, ok, err
	}
	note, working := s.repeats.note(uid, key)
	var n noted
	if !working || note == "" && !ok {
		return c, ok, nil
	}
	if note != "" {
		if err := json.Unmarshal([]byte(note), &n); err != nil {
			return c, ok, fmt.Errorf("what the cluster remembers of request %q: %w", key, err)
		}
		c.Elsewhere = n.Member != s.repeats.member.Member()
	}
	if !ok {
		c = creation.Creation{ID: n.ID, UID: uid, Key: key, Fingerprint: n.Fingerprint, At: n.At, Elsewhere: true}
		if err := s.Journal.BeginCreation(ctx, c); err != nil {
			return c, false, err
		}
	}
	if n.ID != c.ID || c.Elsewhere {
		err = s.keep(ctx, c)
	}
	return c, true, err
}

// BeginCreation implements creation.Storage.
func (s sharedCreations) BeginCreation(ctx context.Context, c creation.Creation) error {
	if err := s.keep(ctx, c); err != nil {
		return err
	}
	return s.Journal.BeginCreation(ctx, c)
}

// keep has the cluster remember a creation that this member is about to send.
func (s sharedCreations) keep(ctx context.Context, c creation.Creation) error {
	data, err := json.Marshal(noted{c.ID, c.Fingerprint, c.At, s.repeats.member.Member()})
	if err != nil {
		return err
	}
	return s.repeats.keep(ctx, c.UID, c.Key, string(data))
}

// DropCreation implements creation.Storage.
func (s sharedCreations) DropCreation(ctx context.Context, id string) error {
	s.repeats.forget(ctx, id)
	return s.Journal.DropCreation(ctx, id)
}

// plan is a plan whose errors are those of package creation.
type plan struct{ *notion.Plan }

// Create implements creation.Plan.
func (p plan) Create(ctx context.Context, id string) (r claim.Reading, err error) {
	r, err = p.Plan.Create(ctx, id)
	var made *notion.CreatedError
	if errors.As(err, &made) {
		err = &creation.SavedError{Page: made.Page, Err: made}
	}
	return r, err
}
