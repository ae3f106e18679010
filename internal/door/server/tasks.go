package server

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

// Tasks finds, makes and changes tasks.
type Tasks interface {
	Tasks(context.Context, api.TaskFilter) (api.Tasks, error)

	// Task fails with broker.ErrNoTask.
	Task(context.Context, task.ID) (api.Task, error)

	// Content fails with broker.ErrNoTask.
	Content(context.Context, task.ID) (api.TaskContent, error)

	// TaskByKey finds a task by its key. It fails with broker.ErrNoTask.
	TaskByKey(ctx context.Context, key string) (task.ID, error)

	// Add makes a task. It fails with *broker.InvalidError, *task.DraftError,
	// broker.ErrNoTask or *claim.StoreError.
	Add(context.Context, broker.Addition) (api.Added, error)

	// Comment fails with *broker.InvalidError, broker.ErrNoTask or *claim.StoreError.
	Comment(context.Context, broker.Remark) (api.Commented, error)

	// Reopen fails with *claim.Denied.
	Reopen(context.Context, broker.Reopening) (api.Reopened, error)

	// ReopenFailed fails with *claim.Denied or *claim.StoreError.
	ReopenFailed(context.Context, broker.ReopeningFailed) (api.ReopenedTasks, error)
}

func (s *Server) tasks(ctx context.Context, in *api.ListTasksInput) (api.Tasks, error) {
	if in.Why && !in.Ready {
		return api.Tasks{}, invalid("query.why", errors.New("goes with ready=true only"))
	}
	return s.broker.Tasks(ctx, api.TaskFilter{
		Status: in.Status, Ready: in.Ready, Agent: in.Agent, Limit: in.Limit, Why: in.Why,
		Filter: api.Filter{Priority: in.Priority, Where: in.Where, Text: in.Text},
	})
}

func (s *Server) task(ctx context.Context, in *api.GetTaskInput) (api.Task, error) {
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return api.Task{}, err
	}
	return s.broker.Task(ctx, id)
}

func (s *Server) content(ctx context.Context, in *api.GetTaskInput) (api.TaskContent, error) {
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return api.TaskContent{}, err
	}
	return s.broker.Content(ctx, id)
}

// named reads a task from a part of a request: its id, its URL or its key.
func (s *Server) named(ctx context.Context, location, name string) (task.ID, error) {
	id, err := task.ParseTaskID(name)
	if err == nil {
		return id, nil
	}
	if key, ok := task.ParseKey(name); ok {
		return s.broker.TaskByKey(ctx, key)
	}
	return "", invalid(location, err)
}

// nameOf returns how a sentence names a task.
func nameOf(t api.TaskRef) string {
	if t.Title == "" {
		return cmp.Or(t.Key, string(t.ID))
	}
	return strconv.Quote(api.Collapse(t.Title))
}
