package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
	"dibs/internal/workspace"
)

// scope takes the conditions for tasks that agents may have, and checks that the database has their
// properties.
func (p *Plan) scope(db notion.Database, only []string) {
	if len(only) > 0 {
		p.Config.Tasks.Only = only
	}
	for _, f := range workspace.Schema(p.Config).ExamineFields(db) {
		if f.Grade == notion.Unusable {
			p.problem("database %q: %s: its properties are %s", db.Title, f.Problem, propertyList(db))
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
	unfinished, waits := make(map[task.ID]task.Task), task.NewWaits()
	for _, t := range rows {
		unfinished[t.ID] = t
		waits.Set(t)
	}
	for _, t := range rows {
		t.Unblocks = waits.Unblocks(t)
		waitsFor := task.Unfinished(t, func(id task.ID) (task.Task, bool) {
			if other, ok := unfinished[id]; ok {
				return other, true
			}
			return task.Task{Status: task.Completed}, true
		})
		if d := claim.Decide(t, "", waitsFor, p.client.Now(), claim.Policy{Timeout: p.Config.Claim.Timeout}); d.Code == "" && t.Status == task.Open {
			p.Offered = append(p.Offered, t)
		}
	}
	slices.SortFunc(p.Offered, task.Before)
	return nil
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
	said := fmt.Sprintf("%d open tasks would be offered to agents", n)
	if n == 1 {
		said = "1 open task would be offered to agents"
	}
	var some []string
	for _, t := range p.Offered[:min(n, someOffered)] {
		some = append(some, "“"+t.Title+"”")
	}
	if n > someOffered {
		some = append(some, "…")
	}
	return said + ": " + strings.Join(some, ", ")
}
