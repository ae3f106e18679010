package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"
)

// Creations make tasks.
type Creations interface {
	// Make creates a task, see creation.Maker. fresh is false if an earlier request made it.
	Make(ctx context.Context, r creation.Request) (made task.Task, fresh bool, err error)
	// Get reads a task's page. The error is a *claim.StoreError.
	Get(ctx context.Context, id task.ID) (claim.Reading, error)
}

// AddTask creates a task, once for each key. The task can be claimed as soon as AddTask returns,
// unless something blocks it. If the request makes no sense, the error is an *InvalidError, a
// *task.DraftError or ErrNoTask; otherwise it is a *claim.StoreError. If that is a
// *creation.UnknownError, repeat the request under its key to find out whether the task was made.
func (b *Broker) AddTask(ctx context.Context, who Caller, in *api.AddInput) (api.Added, error) {
	made, err := b.add(ctx, who, in.Body)
	if err != nil {
		return api.Added{}, err
	}
	shown, err := b.task(ctx, made.ID)
	if errors.Is(err, ErrNoTask) { // finished or trashed since
		shown, err = b.present().shown(made), nil
	}
	return api.Added{Task: shown}, err
}

func (b *Broker) add(ctx context.Context, who Caller, r api.AddRequest) (task.Task, error) {
	draft := task.Draft{Title: task.OneLine(strings.TrimSpace(r.Title), -1), Body: r.Body, Priority: r.Priority, For: r.For}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		values, err := textsOf(r.Fields[name])
		if err != nil {
			return task.Task{}, api.Invalid("body.fields."+name, err)
		}
		draft.Fields = append(draft.Fields, task.Field{Name: name, Values: values})
	}
	if strings.TrimSpace(r.Title) == "" {
		return task.Task{}, &InvalidError{"a task needs a title"}
	}
	if draft.For != "" {
		if err := b.checkName(draft.For); err != nil {
			return task.Task{}, err
		}
	}
	for _, name := range r.DependsOn {
		id, err := b.Named(ctx, name)
		if err != nil {
			return task.Task{}, fmt.Errorf("the new task is to depend on %q: %w", name, err)
		}
		draft.DependsOn = append(draft.DependsOn, id)
	}
	made, fresh, err := b.creations.Make(ctx, creation.Request{Draft: draft, Lookup: b, UID: who.UID, Key: who.Key})
	if err != nil {
		return task.Task{}, err
	}
	if fresh {
		at := b.now()
		e := claim.Fact{ID: claim.NewFactID(at), At: at, Kind: claim.KindAdded, Task: made.ID, Key: made.Key, Title: made.Title, URL: made.URL, Agent: r.Agent, By: who.signs(r.Agent), Holder: draft.For}
		if err := b.journal.Record(context.WithoutCancel(ctx), e); err != nil {
			b.log.Error("could not journal that a task was made; only its entry in dibs log is missing", claim.AttrTask, made.ID, claim.AttrError, err)
		}
	}
	return made, nil
}

// textsOf returns the values of a field as texts.
func textsOf(value any) ([]string, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, nil
	case []any:
		var all []string
		for _, one := range v {
			texts, err := textsOf(one)
			if _, nested := one.([]any); err != nil || nested {
				return nil, errors.New("a list of texts is wanted")
			}
			all = append(all, texts...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("a text, a number, true or false, or a list of texts is wanted")
}

// Named returns the task with that key, id or URL. It asks Notion for a task that the mirror does
// not have. The error is ErrNoTask, an *InvalidError or a *claim.StoreError.
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

// Person returns the id of the Notion user with that name, e-mail address or id. The error is an
// *InvalidError, or that of a request to Notion.
func (b *Broker) Person(ctx context.Context, who string) (string, error) {
	p, err := b.person(ctx, who)
	return p.ID, err
}
