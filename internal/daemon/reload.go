package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/config"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/task"
	"dibs/internal/workspace"
)

// reloadable are the keys that can change while the daemon runs.
var reloadable = []string{
	"notion.rate", "notion.burst", "databases.tasks_source", "databases.task_log_source", "databases.mesh_log_source", "agents", "sync.interval", "schedule.sweep", "schedule.full_sync", "events.keep", "journal.keep", "log.level",
}

// Reload changes the configuration of the running daemon to c, which must be
// valid. If anything in it cannot change while the daemon runs, nothing does. New
// intervals count from the end of those that are running.
func (d *Daemon) Reload(c config.Config) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	before := *d.live.Load()
	changed := config.Changed(before, c)
	if fixed := slices.DeleteFunc(slices.Clone(changed), func(key string) bool { return slices.Contains(reloadable, key) }); len(fixed) > 0 {
		return fmt.Errorf("%s cannot change while the daemon runs: restart it", strings.Join(fixed, ", "))
	}
	if c.Sync.Interval > d.config.Sync.Interval {
		return fmt.Errorf("sync.interval: %v is longer than the %v that the daemon was started with, which abandoned claims are given to be seen: restart it", c.Sync.Interval, d.config.Sync.Interval)
	}
	if !maps.Equal(workspace.Schema(before).NotionUsers, workspace.Schema(c).NotionUsers) {
		return errors.New("agents: which Notion user stands for an agent cannot change while the daemon runs: restart it")
	}
	if token, err := c.Notion.ReadToken(d.log); err != nil {
		return err
	} else if !d.notion.Uses(string(token)) {
		return errors.New("the Notion token has changed, which the daemon that runs cannot take over: restart it")
	}
	if err := d.notion.SetRate(c.Notion.Rate, c.Notion.Burst); err != nil {
		return err
	}
	if err := d.choose(before.Databases, c.Databases); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst))
	}
	d.broker.SetAgents(agentsOf(c))
	if d.logLevel != nil {
		d.logLevel.Set(c.Log.Severity())
	}
	d.mirror.SetInterval(c.Sync.Interval)
	d.live.Store(&c)
	if err := d.reschedule(before.Schedule, c.Schedule); err != nil {
		return err // which cannot be: both are valid
	}
	d.log.Info("the configuration has changed", "keys", changed)
	return nil
}

// agentsOf returns the agents of a configuration in the terms of the broker.
func agentsOf(c config.Config) []broker.Agent {
	var out []broker.Agent
	for _, a := range c.Agents {
		out = append(out, broker.Agent{Name: a.Name, UIDs: a.UIDs})
	}
	return out
}

// chooseWait is how long a reload waits to hear from Notion whether the tasks are in
// the data source that is named now.
const chooseWait = time.Minute

// choose goes by what is said now of the databases' data sources. The tasks cannot
// move from one to another under the claims: one that is not there, or does not have
// what is held, or cannot have tasks, changes nothing.
func (d *Daemon) choose(before, after config.Databases) error {
	if before.TasksSource == after.TasksSource {
		workspace.Choose(d.notion, after)
		return nil
	}
	if before.TasksSource != "" && d.tasks.Broken() == nil {
		return errors.New("databases.tasks_source cannot change while the tasks can be claimed: restart the daemon")
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseWait)
	defer cancel()
	if after.TasksSource != "" {
		if err := d.hasHeld(ctx, after); err != nil {
			return fmt.Errorf("databases.tasks_source: %w", err)
		}
	}
	workspace.Choose(d.notion, after)
	err := d.tasks.Check(ctx)
	if err == nil {
		err = d.tasks.Broken()
	}
	if err != nil {
		workspace.Choose(d.notion, before)
		if berr := d.tasks.Check(ctx); berr != nil {
			d.log.Debug("the tasks database is as before", "error", berr)
		}
		return fmt.Errorf("databases.tasks_source: %w", err)
	}
	return mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}

// hasHeld checks that the data source that is named has all tasks that are held, or
// of which Notion has yet to be told that they are done: none of another one would be
// found again.
func (d *Daemon) hasHeld(ctx context.Context, db config.Databases) error {
	source, err := d.notion.FindSource(ctx, task.ID(db.Tasks), workspace.TasksSource, db.TasksSource)
	if err != nil {
		return err
	}
	live, err := d.journal.Live(ctx)
	if err != nil {
		return err
	}
	for _, cl := range live {
		if cl.State != claim.Finishing && (cl.State != claim.Held || !cl.StaleAt.After(d.notion.Now())) {
			continue
		}
		in, err := d.notion.SourceOf(ctx, cl.Task.ID)
		if err != nil {
			return err
		}
		if in != source.ID {
			return fmt.Errorf("data source %q does not have %q, which %s holds: name the one that has it", source.Name, cl.Task.Title, cl.Agent)
		}
	}
	return nil
}

// Alive reports whether the daemon can do anything at all: whether the journal,
// on which everything depends, can be read in time.
func (d *Daemon) Alive(ctx context.Context) error {
	_, err := mirror.Schema(ctx, d.journal)
	return err
}
