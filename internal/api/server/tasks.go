package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

type (
	tasksOutput struct{ Body api.Tasks }
	taskOutput  struct{ Body api.Task }
	pageOutput  struct{ Body api.TaskContent }
)

func (s *Server) taskRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks",
		Summary: "Tasks, as the daemon's copy of the database has them",
	}, s.tasks)
	add(o, huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{id}",
		Summary: "A task, as the daemon's copy of the database has it",
	}, s.task)
	add(o, huma.Operation{
		OperationID: "get-task-content", Method: http.MethodGet, Path: "/v1/tasks/{id}/content",
		Summary: "A task with what its page says, read from Notion",
	}, s.content)
}

func (s *Server) tasks(ctx context.Context, in *struct {
	Status string `query:"status" enum:"OPEN,IN_PROGRESS,BLOCKED,COMPLETED,CANCELLED,REVIEW,FAILED"`
	Ready  bool   `query:"ready" doc:"Only those that a claim could get now, in the order they are offered: of any agent, or of that one"`
	Agent  string `query:"agent" doc:"Only those claimed by this name; with ready, those that this agent could get"`
	Limit  int    `query:"limit" minimum:"0" doc:"At most that many; 0 is all"`
	Why    bool   `query:"why" doc:"With ready: behind those, the unfinished tasks that are not ready, each with what it waits for"`

	Priority string   `query:"priority" enum:"critical,high,medium,low,none" doc:"Only tasks of this priority"`
	Where    []string `query:"where,explode" maxItems:"20" doc:"NAME=VALUE, any number of times: only tasks whose field has this value; of a list, among others"`
	Text     string   `query:"text" maxLength:"1000" doc:"Only tasks whose title has all these words in it, in whatever case"`
}) (*tasksOutput, error) {
	if in.Why && !in.Ready {
		return nil, invalid("query.why", errors.New("goes with ready=true only"))
	}
	listing, err := s.broker.Tasks(ctx, api.TaskFilter{
		Status: task.Status(in.Status), Ready: in.Ready, Agent: in.Agent, Limit: in.Limit, Why: in.Why,
		Filter: api.Filter{Priority: in.Priority, Where: in.Where, Text: in.Text},
	})
	if err != nil {
		return nil, err
	}
	return &tasksOutput{api.Tasks{
		Tasks: each(listing.Tasks, s.taskOf), Total: listing.Total, LimitReached: listing.LimitReached, Age: s.localAge(listing.Age),
	}}, nil
}

func (s *Server) task(ctx context.Context, in *struct {
	ID string `path:"id" doc:"The task's id, URL or key, such as T-3"`
}) (*taskOutput, error) {
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return nil, err
	}
	view, err := s.broker.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	return &taskOutput{s.taskOf(view)}, nil
}

func (s *Server) content(ctx context.Context, in *struct {
	ID string `path:"id" doc:"The task's id, URL or key, such as T-3"`
}) (*pageOutput, error) {
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return nil, err
	}
	content, err := s.broker.Content(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pageOutput{s.taskOf(content.View).With(s.pageOf(content))}, nil
}

// named reads which task a part of a request means: by its id, its URL or its key.
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

// nameOf names a task in a sentence.
func nameOf(t task.Task) string {
	if t.Title == "" {
		return cmp.Or(t.Key, string(t.ID))
	}
	return strconv.Quote(oneLine(t.Title))
}
