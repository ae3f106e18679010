package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/worklog"
	"dibs/internal/workspace"
)

// unavailable reports whether err says that Notion cannot be reached at present.
func unavailable(err error) bool {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	return isFailed && failed.Kind == claim.Unavailable
}

// connectWait is how long Start waits to hear from Notion of the databases if an earlier
// run knew them. It must be short: the socket is open by then, and nobody who comes is
// answered yet.
const connectWait = 5 * time.Second

// errConnect is why a request that takes longer is cut off.
var errConnect = fmt.Errorf("no answer within %s", connectWait)

// openTasks opens the tasks database: as Notion, asked with the context asking, says
// that it is, or, if Notion cannot be reached, as an earlier run knew it, and down says
// why. known is empty if there was no earlier run.
func (d *works) openTasks(ctx, asking context.Context, known string) (down, err error) {
	schema := workspace.Schema(d.config)
	schema.Known = known
	d.tasks, err = d.notion.Tasks(asking, d.config.Databases.Tasks, schema)
	if unavailable(err) && known != "" {
		if recalled, rerr := d.notion.RecallTasks(d.config.Databases.Tasks, schema); rerr == nil {
			d.log.Warn("Notion cannot be reached; the tasks are as of the last run", "error", err)
			d.tasks, down, err = recalled, err, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if known != "" && d.config.Databases.TasksSource != "" && d.tasks.Known() != known {
		// The configuration may name another data source than last time.
		if err := d.hasHeld(notion.Impatient(ctx), d.config.Databases); err != nil {
			return nil, err
		}
	}
	return down, mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}

// openLog opens a log database. If Notion cannot be reached and an earlier run could use
// the database, its schema is read later, when Notion answers again.
func (d *works) openLog(ctx context.Context, id string, earlier bool) (worklog.Writer, error) {
	log, err := d.notion.Log(ctx, id)
	if unavailable(err) && earlier {
		return d.notion.RecallLog(id)
	}
	return log, err
}
