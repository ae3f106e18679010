package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/worklog"
	"dibs/internal/workspace"
)

// metaSchema is the key under which the journal keeps what is known of the schema
// of the tasks database, so that a daemon can start while Notion is down.
const metaSchema = "notion.tasks"

// firstWait is how long Start waits for the first sync. A board of usual size is
// read by then, so that the first agent to come is not told half the story; of a
// larger one the status says how far it has been read.
const firstWait = 5 * time.Second

// unavailable reports whether err says that Notion cannot be reached at present.
func unavailable(err error) bool {
	var failed *claim.StoreError
	return errors.As(err, &failed) && failed.Kind == claim.Unavailable
}

// connectWait is how long Start waits for what Notion says of the databases when it
// could do without. The socket is open by then, and nobody who comes is answered.
const connectWait = 5 * time.Second

// errConnect is the cause of requests that took longer.
var errConnect = fmt.Errorf("no answer within %s", connectWait)

// openTasks opens the tasks database by what Notion says when it is asked with
// asking; if it cannot be reached, as an earlier run knew it, which is empty if there
// was none.
func (d *Daemon) openTasks(ctx, asking context.Context, known string) (err error) {
	schema := workspace.Schema(d.config)
	schema.Known = known
	d.tasks, err = d.notion.Tasks(asking, d.config.Databases.Tasks, schema)
	if unavailable(err) && known != "" {
		if recalled, rerr := d.notion.RecallTasks(d.config.Databases.Tasks, schema); rerr == nil {
			d.log.Warn("Notion cannot be reached; the tasks are as of the last run", "error", err)
			d.failure = err.Error() // nor could they be synced
			d.tasks, err = recalled, nil
		}
	}
	if err != nil {
		return err
	}
	if known != "" && d.config.Databases.TasksSource != "" && d.tasks.Known() != known {
		if err := d.hasHeld(notion.Impatient(ctx), d.config.Databases); err != nil { // another one may be named than last time
			return err
		}
	}
	return d.keepSchema(ctx)
}

// keepSchema remembers the schema for a later run.
func (d *Daemon) keepSchema(ctx context.Context) error {
	known := d.tasks.Known()
	if kept, err := d.journal.Meta(ctx, metaSchema); err != nil || kept == known {
		return err
	}
	return d.journal.SetMeta(ctx, metaSchema, known)
}

// openLog opens a log database. If Notion cannot be reached, and an earlier run
// could use it, it is read once Notion can be.
func (d *Daemon) openLog(ctx context.Context, id string, earlier bool) (worklog.Writer, error) {
	log, err := d.notion.Log(ctx, id)
	if unavailable(err) && earlier {
		return d.notion.RecallLog(id)
	}
	return log, err
}

// begin starts the first sync, which goes on until Run takes over if it has to,
// and waits a while for it. A daemon that has tasks of an earlier run does without
// one that Notion is not there for.
func (d *Daemon) begin(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	hopeless := d.failing() && !d.mirror.SyncedAt().IsZero()
	d.first = make(chan struct{})
	var err error
	go func() {
		defer close(d.first)
		err = d.sync(work, true)
	}()
	d.cleanup = append(d.cleanup, func() error {
		stop()
		<-d.first
		return nil
	})
	if hopeless {
		return nil
	}
	wait := time.NewTimer(firstWait)
	defer wait.Stop()
	select {
	case <-d.first:
		if unavailable(err) && !d.mirror.SyncedAt().IsZero() {
			return nil
		}
		return err
	case <-wait.C:
		d.log.Info("the tasks are still being read; serving meanwhile")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
