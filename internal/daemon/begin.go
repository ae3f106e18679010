package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// unavailable reports whether err says that Notion cannot be reached.
func unavailable(err error) bool {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	return isFailed && failed.Kind == claim.Unavailable
}

// connectWait is how long Start waits for Notion to describe the databases if an earlier run knew
// them. It must be short: the socket is already open, and no caller is answered before Start
// returns.
const connectWait = 5 * time.Second

// errConnect is the cause of a request that was cancelled after connectWait.
var errConnect = fmt.Errorf("no answer within %s", connectWait)

// openTasks opens the tasks database with the schema that Notion gives, asked with the context
// asking. If Notion cannot be reached, it uses the schema of an earlier run, and down is the
// reason. known is empty if there was no earlier run; was is the data source that it used.
func (d *works) openTasks(ctx, asking context.Context, known string, was task.ID) (down, err error) {
	schema := workspace.Schema(d.config)
	schema.Known = known
	d.tasks, err = d.notion.Tasks(asking, d.config.Databases.Tasks, schema)
	if unavailable(err) && known != "" {
		if recalled, rerr := d.notion.RecallTasks(d.config.Databases.Tasks, schema); rerr == nil {
			d.log.Warn("Notion cannot be reached; the tasks are as of the last run", claim.AttrError, err)
			d.tasks, down, err = recalled, err, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if now := d.notion.Sources()[d.tasks.ID()]; was != "" && was != now.Source { // another one is named, or the former one is gone
		if err := d.hasHeld(notion.Impatient(ctx), now); err != nil {
			return nil, err
		}
	}
	return down, mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}

// openLog opens a log database. If Notion cannot be reached and an earlier run used the database,
// its schema is read once Notion answers.
func (d *works) openLog(ctx context.Context, id string, earlier bool) (wording.Writer, error) {
	log, err := d.notion.Log(ctx, id)
	if unavailable(err) && earlier {
		return d.notion.RecallLog(id)
	}
	return log, err
}
