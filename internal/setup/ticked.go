package setup

import (
	"context"
	"fmt"
	"slices"

	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
)

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
