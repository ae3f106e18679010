package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/danielgtaylor/huma/v2"
)

type (
	addedOutput struct {
		Status int
		Body   api.Added
	}
	commentedOutput struct {
		Status int
		Body   api.Commented
	}
)

func (s *Server) addRoutes(o operations) {
	add(o, huma.Operation{
		OperationID: "add-task", Method: http.MethodPost, Path: "/v1/tasks", DefaultStatus: http.StatusCreated,
		Summary: "Make a task; a request that comes again under its key never makes a second one",
	}, s.add)
	add(o, huma.Operation{
		OperationID: "comment", Method: http.MethodPost, Path: "/v1/tasks/{id}/comments", DefaultStatus: http.StatusCreated,
		Summary: "Put a comment on a task's page, signed by the agent",
		Responses: map[string]*huma.Response{"202": {
			Description: "Accepted, and owed to Notion",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: o.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Commented](), true, "Commented")},
			},
		}},
	}, s.comment)
	add(o, changeBy(o, "ask", "Ask people something: a comment, and the task is blocked until they answer"),
		func(ctx context.Context, in *changeInput[api.AskRequest]) (*claimOutput, error) {
			body := orZero(in.Body)
			return s.finish(ctx, in.ID, body.Agent, claim.Finish{As: claim.EndBlocked, Summary: body.Text, Mention: body.To, Ask: true})
		})
}

func (s *Server) add(ctx context.Context, in *struct {
	Key  string `header:"Idempotency-Key" doc:"A repeated request with the same key never makes a second task, and finds out whether the first was made"`
	Body api.AddRequest
}) (*addedOutput, error) {
	if in.Body.Agent != "" {
		if err := s.broker.Authorize(in.Body.Agent, asks(ctx)); err != nil {
			return nil, err
		}
	}
	body := in.Body
	a := broker.Addition{
		Agent: body.Agent, By: signature(ctx, body.Agent), DependsOn: body.DependsOn, Key: in.Key,
		Draft: task.Draft{Title: body.Title, Body: body.Body, Priority: body.Priority, For: body.For},
	}
	if in.Key != "" {
		a.UID = caller(ctx)
	}
	for _, name := range slices.Sorted(maps.Keys(body.Fields)) {
		values, err := textsOf(body.Fields[name])
		if err != nil {
			return nil, invalid("body.fields."+name, err)
		}
		a.Draft.Fields = append(a.Draft.Fields, task.Field{Name: name, Values: values})
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	a.Fingerprint = hex.EncodeToString(sum[:])
	view, err := s.broker.Add(ctx, a)
	if err != nil {
		return nil, err
	}
	return &addedOutput{http.StatusCreated, api.Added{Task: s.taskOf(view)}}, nil
}

// textsOf are the values of a field as texts.
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

func (s *Server) comment(ctx context.Context, in *handInput[api.CommentRequest]) (*commentedOutput, error) {
	id, err := s.handed(ctx, in.ID, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	r := broker.Remark{Agent: in.Body.Agent, Task: id, Text: in.Body.Text, Mention: in.Body.Mention, Key: in.Key}
	if in.Key != "" {
		r.UID = caller(ctx)
	}
	said, err := s.broker.Comment(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &commentedOutput{http.StatusCreated, api.Commented{
		Task:    refOf(said.Task),
		Comment: api.Comment{By: in.Body.Agent, At: s.localTime(said.At), Text: in.Body.Text},
	}}
	if !said.Delivered {
		out.Status = http.StatusAccepted
		out.Body.Detail = saying(errors.New(said.Detail))
	}
	return out, nil
}
