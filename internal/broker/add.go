package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/task"
)

// Creations make tasks.
type Creations interface {
	// Make makes a task, see creation.Maker.
	Make(ctx context.Context, r creation.Request) (made task.Task, fresh bool, err error)
	// Get reads the page of a task. The error is a *claim.StoreError.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
}

// Addition asks for a task to be made.
type Addition struct {
	// Agent is who asks; empty for a person, By.
	Agent string
	// By is as in a Reopening.
	By string
	// Draft is what the task is to have; what it depends on is in DependsOn.
	Draft task.Draft
	// DependsOn names tasks, each by its key, id or URL.
	DependsOn []string
	// Keyed has a request that comes again find its task.
	Keyed
}

// Add makes a task, once for each key. When it returns, the task can be claimed, unless
// something stands in its way. The error is an *InvalidError, a *task.DraftError or
// ErrNoTask if the request makes no sense; or a
// *claim.StoreError, and if it is a *creation.UnknownError, the same request, with its
// key, finds out whether the task was made.
func (b *Broker) Add(ctx context.Context, a Addition) (api.Added, error) {
	made, err := b.add(ctx, a)
	if err != nil {
		return api.Added{}, err
	}
	shown, err := b.Task(ctx, made.ID)
	if errors.Is(err, ErrNoTask) { // it was finished, or put away, since
		shown, err = b.present().shown(made), nil
	}
	return api.Added{Task: shown}, err
}

func (b *Broker) add(ctx context.Context, a Addition) (task.Task, error) {
	if strings.TrimSpace(a.Draft.Title) == "" {
		return task.Task{}, &InvalidError{"a task needs a title"}
	}
	a.Draft.Title = task.OneLine(strings.TrimSpace(a.Draft.Title), -1)
	if a.Draft.For != "" {
		if err := b.checkName(a.Draft.For); err != nil {
			return task.Task{}, err
		}
	}
	for _, name := range a.DependsOn {
		id, err := b.Named(ctx, name)
		if err != nil {
			return task.Task{}, fmt.Errorf("the new task is to depend on %q: %w", name, err)
		}
		a.Draft.DependsOn = append(a.Draft.DependsOn, id)
	}
	made, fresh, err := b.creations.Make(ctx, creation.Request{Draft: a.Draft, Lookup: b, UID: a.UID, Key: a.Key})
	if err != nil {
		return task.Task{}, err
	}
	if fresh {
		at := b.now()
		e := claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindAdded, Task: made.ID, Title: made.Title, URL: made.URL, Agent: a.Agent, By: a.By, Holder: a.Draft.For}
		if err := b.journal.Record(context.WithoutCancel(ctx), e); err != nil {
			b.log.Error("that a task was made could not be journalled", "task", made.ID, "error", err)
		}
	}
	return made, nil
}

// Named returns the task that a key, an id or a URL means, if there is one. One that is
// not in the mirror takes a request. The error is ErrNoTask, an *InvalidError or a
// *claim.StoreError.
func (b *Broker) Named(ctx context.Context, name string) (task.ID, error) {
	id, err := task.ParseTaskID(name)
	if err != nil {
		if key, ok := task.ParseKey(name); ok {
			return b.TaskByKey(ctx, key)
		}
		return "", &InvalidError{fmt.Sprintf("%q names no task: want its key such as T-3, its id, or its URL in Notion", name)}
	}
	if t, known := b.mirror.Task(id); known && !t.Trashed {
		return id, nil
	}
	read, err := b.creations.Get(ctx, id)
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	switch {
	case isFailed && failed.Kind == claim.NotFound, err == nil && read.Task.Trashed:
		return "", fmt.Errorf("%w %s", ErrNoTask, id)
	case err != nil:
		return "", err
	}
	return id, nil
}

// Person returns the id of the Notion user whom a name, an e-mail address or an id means.
// The error is an *InvalidError, or of a request.
func (b *Broker) Person(ctx context.Context, who string) (string, error) {
	p, err := b.person(ctx, who)
	return p.ID, err
}
