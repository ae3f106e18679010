package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/task"
)

// Apply carries out the plan step by step and calls done after each. After an error the steps done
// so far stay, and a new plan continues from there. A long pause that Notion asks for is an error,
// too.
func (p *Plan) Apply(ctx context.Context, done func(Step)) error {
	ctx = notion.Impatient(ctx)
	if problems := slices.Concat(p.Problems, p.Unanswered()); len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	for _, s := range p.Steps {
		if err := p.run(ctx, &s); err != nil {
			return fmt.Errorf("%s: %w; what was done stays: run the same again to go on from here", s, err)
		}
		done(s)
	}
	return nil
}

// Unanswered returns the questions without whose answers the plan cannot be carried out, a line each.
func (p *Plan) Unanswered() []string {
	var lines []string
	for _, q := range p.Questions {
		if q.Taken == "" {
			lines = append(lines, q.String())
		}
	}
	return lines
}

func (p *Plan) run(ctx context.Context, s *Step) error {
	if s.Action == WriteConfig {
		c := p.saved
		c.Databases, c.Tasks.Properties, c.Tasks.Statuses, c.Tasks.Priorities = p.Config.Databases, p.Config.Tasks.Properties, p.Config.Tasks.Statuses, p.Config.Tasks.Priorities
		c.Tasks.Only = p.Config.Tasks.Only
		return c.WriteFile(p.File, p.replace)
	}
	k := kind{key: s.Database}
	id := k.id(&p.Config.Databases)
	switch s.Action {
	case CreateDatabase:
		db, err := p.client.CreateDatabase(ctx, p.parent, s.title, s.columns...)
		if err != nil {
			return err
		}
		*id, *k.source(&p.Config.Databases) = string(db.ID), string(db.Source)
		return nil
	case Complete:
		db, err := p.client.Database(ctx, *id)
		if err != nil {
			return err
		}
		return p.client.CompleteTicked(ctx, db, workspace.Schema(p.Config))
	case AddView:
		return p.leftOut(s, p.client.AddBoard(ctx, task.ID(*id), boardName, p.Config.Tasks.Properties.Status))
	case AddOptions:
		_, err := p.client.Extend(ctx, task.ID(*id), s.columns[0])
		if answered, ok := errors.AsType[*notion.APIError](err); ok && answered.Status == http.StatusBadRequest {
			return fmt.Errorf("add the options in Notion by hand, or say in tasks.statuses what they are called: %w", err)
		}
		return err
	default:
		return p.add(ctx, task.ID(*id), s)
	}
}

// leftOut handles the error of an optional step: if Notion refused it, it notes how to do it by
// hand and returns nil. Any other error is returned.
func (p *Plan) leftOut(s *Step, err error) error {
	answered, ok := errors.AsType[*notion.APIError](err)
	if s.byHand == "" || !ok || !slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, answered.Status) {
		return err
	}
	p.note("%s was left out, as Notion refused it (%v); by hand: %s", s.What, err, s.byHand)
	return nil
}

// add adds properties.
func (p *Plan) add(ctx context.Context, id task.ID, s *Step) error {
	for i := range s.columns {
		if col := &s.columns[i]; col.Type == "relation" && s.Database != "tasks" {
			col.To = task.ID(p.Config.Databases.Tasks)
		}
	}
	_, err := p.client.AddColumns(ctx, id, s.columns...)
	return p.leftOut(s, err)
}
