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
		return p.extend(ctx, task.ID(*id), s.columns[0])
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

// add adds properties. If Notion refuses a status with groups, it tries one without groups, and
// then a select.
func (p *Plan) add(ctx context.Context, id task.ID, s *Step) error {
	for i := range s.columns {
		if col := &s.columns[i]; col.Type == "relation" && s.Database != "tasks" {
			col.To = task.ID(p.Config.Databases.Tasks)
		}
	}
	_, err := p.client.AddColumns(ctx, id, s.columns...)
	if !refused(err) || len(s.columns) != 1 || s.columns[0].Type != "status" {
		return p.leftOut(s, err)
	}
	col := s.columns[0]
	col.Groups = nil
	if _, err := p.client.AddColumns(ctx, id, col); !refused(err) {
		if err == nil {
			p.ungrouped(s.columns[0])
		}
		return err
	}
	col.Type = "select"
	if _, err := p.client.AddColumns(ctx, id, col); err != nil {
		return err
	}
	s.What = describe(col)
	p.note("Notion does not accept a property of type status here, so %s is a select, which does as well", col.Name)
	if len(p.Offered) > 0 { // there are rows that want to be OPEN
		p.note("no row has a %s yet, apart from those that are ticked: agents are offered a row once you set it to %s", col.Name, p.Config.Tasks.Statuses.Open)
	}
	return nil
}

// extend adds options to a property, in their groups if Notion accepts that.
func (p *Plan) extend(ctx context.Context, id task.ID, col notion.NewColumn) error {
	db, err := p.client.Extend(ctx, id, col)
	if refused(err) {
		plain := col
		plain.Groups = nil
		if db, err = p.client.Extend(ctx, id, plain); err == nil && db.Columns[col.Name].Type == "status" {
			p.ungrouped(col)
		}
	}
	if refused(err) {
		return fmt.Errorf("add the options in Notion by hand, or say in tasks.statuses what they are called: %w", err)
	}
	return err
}

// ungrouped notes that new options of a status are not in their groups.
func (p *Plan) ungrouped(status notion.NewColumn) {
	var moves []string
	for _, group := range []string{"In progress", "Complete"} { // they are in To-do
		in := slices.DeleteFunc(slices.Clone(status.Options), func(name string) bool { return status.Groups[name] != group })
		if last := len(in) - 1; last > 0 {
			in = []string{strings.Join(in[:last], ", ") + " and " + in[last]}
		}
		for _, names := range in {
			moves = append(moves, names+" to "+group)
		}
	}
	if len(moves) > 0 {
		p.note("Notion did not put the options of %s into their groups: by hand, in the settings of the property, move %s", status.Name, strings.Join(moves, ", and "))
	}
}

// refused reports whether Notion rejected the request itself, rather than being unreachable.
func refused(err error) bool {
	answered, ok := errors.AsType[*notion.APIError](err)
	return ok && answered.Status == http.StatusBadRequest
}
