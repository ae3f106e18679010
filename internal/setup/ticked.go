package setup

import (
	"context"
	"fmt"

	"dibs/config"
	"dibs/internal/notion"
	"dibs/internal/workspace"
)

// planTicked plans to complete what is ticked as done on a board that gets its first status: Notion
// shows every row as OPEN then. A status that a team had before is left as it is; one that an
// earlier run made and did not finish with is dibs' own by name.
func (p *Plan) planTicked(ctx context.Context, k kind, db notion.Database) error {
	names := p.Config.Tasks.Properties
	_, has := db.Columns[names.Status]
	own := names.Status == config.Default().Tasks.Properties.Status && p.Config.Databases.Tasks != p.saved.Databases.Tasks
	if db.ID == "" || names.Done == "" || has && !own {
		return nil
	}
	rows, err := p.client.Ticked(ctx, db, workspace.Schema(p.Config))
	if len(rows) > 0 {
		p.step(Step{Action: Complete, Database: k.key, What: fmt.Sprintf("%d rows that are ticked in %s: %s %s",
			len(rows), names.Done, names.Status, p.Config.Tasks.Statuses.Completed)})
	}
	return err
}
