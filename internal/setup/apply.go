package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"dibs/internal/notion"
	"dibs/internal/task"
)

// Apply carries the plan out, step by step. It calls done after each. What was
// done before an error stays; a new plan goes on from there. A long pause that
// Notion asks for is an error, too.
func (p *Plan) Apply(ctx context.Context, done func(Step)) error {
	ctx = notion.Impatient(ctx)
	if len(p.Problems) > 0 {
		return errors.New(strings.Join(p.Problems, "\n"))
	}
	for _, s := range p.Steps {
		if err := p.run(ctx, &s); err != nil {
			return fmt.Errorf("%s: %w; what was done stays: run the same again to go on from here", s, err)
		}
		done(s)
	}
	return nil
}

func (p *Plan) run(ctx context.Context, s *Step) error {
	if s.Action == WriteConfig {
		c := p.saved
		c.Databases, c.Tasks.Properties, c.Tasks.Statuses = p.Config.Databases, p.Config.Tasks.Properties, p.Config.Tasks.Statuses
		return c.WriteFile(p.File, p.replace)
	}
	var id *string
	for _, k := range kinds {
		if k.key == s.Database {
			id = k.id(&p.Config.Databases)
		}
	}
	switch s.Action {
	case CreateDatabase:
		db, err := p.client.CreateDatabase(ctx, p.parent, s.title, s.columns...)
		if err != nil {
			return err
		}
		*id = string(db.ID)
		return nil
	case AddOptions:
		col := s.columns[0]
		_, err := p.client.AddOptions(ctx, task.ID(*id), col.Name, col.Options...)
		if refused(err) {
			return fmt.Errorf("add the options in Notion by hand, or say in tasks.statuses what they are called: %w", err)
		}
		return err
	default:
		return p.add(ctx, task.ID(*id), s)
	}
}

// add adds properties. Where Notion does not accept one of type status, a select
// does as well.
func (p *Plan) add(ctx context.Context, id task.ID, s *Step) error {
	_, err := p.client.AddColumns(ctx, id, s.columns...)
	if !refused(err) {
		return err
	}
	if s.optional {
		p.note("%s was left out: %v", s.What, err)
		return nil
	}
	if len(s.columns) != 1 || s.columns[0].Type != "status" {
		return err
	}
	col := s.columns[0]
	col.Type = "select"
	if _, err := p.client.AddColumns(ctx, id, col); err != nil {
		return err
	}
	s.What = describe(col)
	p.note("Notion does not accept a property of type status here, so %s is a select, which does as well", col.Name)
	return nil
}

// refused reports whether Notion does not accept what was asked for, rather than
// that it could not be asked.
func refused(err error) bool {
	var answered *notion.APIError
	return errors.As(err, &answered) && answered.Status == http.StatusBadRequest
}
