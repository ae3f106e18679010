package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/task"
)

func (s *Server) add(ctx context.Context, in *api.AddInput) (api.Added, error) {
	if err := s.authorizeNamed(ctx, in.Body.Agent); err != nil {
		return api.Added{}, err
	}
	body := in.Body
	a := broker.Addition{
		Agent: body.Agent, By: signature(ctx, body.Agent), DependsOn: body.DependsOn, Keyed: keyedBy(ctx),
		Draft: task.Draft{Title: body.Title, Body: body.Body, Priority: body.Priority, For: body.For},
	}
	for _, name := range slices.Sorted(maps.Keys(body.Fields)) {
		values, err := textsOf(body.Fields[name])
		if err != nil {
			return api.Added{}, invalid("body.fields."+name, err)
		}
		a.Draft.Fields = append(a.Draft.Fields, task.Field{Name: name, Values: values})
	}
	return s.broker.Add(ctx, a)
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

func (s *Server) comment(ctx context.Context, in *api.TaskInput[api.CommentRequest]) (api.Commented, error) {
	if err := s.authorizeNamed(ctx, in.Body.Agent); err != nil {
		return api.Commented{}, err
	}
	id, err := s.named(ctx, "path.id", in.ID)
	if err != nil {
		return api.Commented{}, err
	}
	return s.broker.Comment(ctx, broker.Remark{Agent: in.Body.Agent, By: signature(ctx, in.Body.Agent), Task: id, Text: in.Body.Text, Mention: in.Body.Mention, Keyed: keyedBy(ctx)})
}
