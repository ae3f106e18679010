package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/task"
)

// scope takes the conditions for tasks that agents may have, and checks that the database has their
// properties.
func (p *Plan) scope(db notion.Database, only []string) {
	if len(only) > 0 {
		p.Config.Tasks.Only = only
	}
	for _, f := range workspace.Schema(p.Config).ExamineFields(db) {
		if f.Grade == notion.Unusable {
			p.problem("%s: database %q: %s: its properties are %s", p.SayOffered(), db.Title, f.Problem, propertyList(db))
		}
	}
}

// survey reads the open tasks that agents would be offered. What the tasks of a database wait for
// and is not unfinished there counts as done.
func (p *Plan) survey(ctx context.Context, db notion.Database) error {
	if db.ID == "" || len(p.Problems) > 0 {
		return nil
	}
	rows, err := p.client.Survey(ctx, db, workspace.Schema(p.Config))
	if err != nil {
		return err
	}
	p.Surveyed = true
	unfinished, waits := make(map[task.ID]task.Task), task.NewWaits()
	for _, t := range rows {
		unfinished[t.ID] = t
		waits.Set(t)
	}
	var beyond []task.Task // that no condition but tasks.only keeps back
	for _, t := range rows {
		t.Unblocks = waits.Unblocks(t)
		waitsFor := task.Unfinished(t, func(id task.ID) (task.Task, bool) {
			if other, ok := unfinished[id]; ok {
				return other, true
			}
			return task.Task{Status: task.Completed}, true
		})
		outside := t.Outside
		t.Outside = ""
		d := claim.Decide(t, "", waitsFor, p.client.Now(), claim.Policy{Timeout: p.Config.Claim.Timeout})
		switch {
		case d.Code != "" || t.Status != task.Open:
		case outside == "":
			p.Offered = append(p.Offered, t)
		default:
			beyond = append(beyond, t)
		}
	}
	p.missed(db, beyond)
	slices.SortFunc(p.Offered, task.Before)
	return nil
}

// missed reports conditions that no task meets, and what there is to name instead, unless dibs works
// with them already. rows are the open tasks that they keep back; without any, only what no task can
// meet is wrong.
func (p *Plan) missed(db notion.Database, rows []task.Task) {
	wrong := len(rows) > 0
	var may []string
	for _, c := range workspace.Schema(p.Config).Only {
		col := db.Columns[c.Field]
		var options []any
		for _, name := range col.Options {
			options = append(options, name)
		}
		if col.Type == "checkbox" {
			options = []any{true, false}
		}
		if len(options) > 0 {
			may = append(may, fmt.Sprintf("%s may be %s", c.Field, task.FieldText(options)))
			wrong = wrong || c.Value != "" && !task.FieldMatches(options, c.Value)
		} else {
			may = append(may, fmt.Sprintf("%s is %s", c.Field, values(rows, c.Field)))
		}
	}
	known := string(db.ID) == p.saved.Databases.Tasks && slices.Equal(p.Config.Tasks.Only, p.saved.Tasks.Only)
	if wrong && len(p.Offered) == 0 && !known {
		p.problem("%s: none of %d has %s: %s", p.SayOffered(), len(rows), strings.Join(p.Config.Tasks.Only, " and "), strings.Join(may, "; "))
	}
}

// values lists values of a field, some if there are many.
func values(rows []task.Task, field string) string {
	all := make(map[string]bool)
	for _, t := range rows {
		all[cmp.Or(task.FieldText(t.Field(field)), "empty")] = true
	}
	some := slices.Sorted(maps.Keys(all))
	if len(some) > someOffered {
		some = append(some[:someOffered], "…")
	}
	return strings.Join(some, ", ")
}

// OffersAll reports whether the plan offers agents all open tasks of a database in which nobody has
// claimed anything so far.
func (p *Plan) OffersAll() bool {
	return len(p.Offered) > 0 && len(p.Config.Tasks.Only) == 0 && p.adopts
}

// someOffered is how many of the offered tasks are named.
const someOffered = 5

// SayOffered says in one line how many tasks agents would be offered, and names the first.
func (p *Plan) SayOffered() string {
	n := len(p.Offered)
	line := fmt.Sprintf("%d open tasks would be offered to agents", n)
	if n == 1 {
		line = "1 open task would be offered to agents"
	}
	if n == 0 {
		return line
	}
	var some []string
	for _, t := range p.Offered[:min(n, someOffered)] {
		some = append(some, "“"+t.Title+"”")
	}
	if n > someOffered {
		some = append(some, "…")
	}
	return line + ": " + strings.Join(some, ", ")
}

// planTicked plans to complete what is ticked as done on a board that gets its first status: Notion
// shows every row as OPEN then. That is done before anything that makes the board one that dibs
// works on. So a new run can tell a status that an unfinished run made from a team's own, which is
// left as it is.
func (p *Plan) planTicked(ctx context.Context, k kind, db notion.Database) error {
	names := p.Config.Tasks.Properties
	status, has := db.Columns[names.Status]
	unfinished := p.adopts && sameNames(status.Options, p.options("status"))
	if db.ID == "" || names.Done == "" || len(p.Problems) > 0 || has && !unfinished {
		return nil
	}
	rows, err := p.client.Ticked(ctx, db, workspace.Schema(p.Config))
	if err != nil || len(rows) == 0 {
		return err
	}
	p.step(Step{Action: Complete, Database: k.key, What: fmt.Sprintf("%d rows that are ticked in %s: %s %s",
		len(rows), names.Done, names.Status, p.Config.Tasks.Statuses.Completed)})
	return nil
}

// sameNames reports whether two lists have the same names, in whatever order.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
