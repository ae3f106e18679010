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
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/task"
)

// reloadable are the keys that can change while the daemon runs.
var reloadable = []string{
	"notion.rate", "notion.burst", "notion.comments", "databases.tasks_source", "databases.task_log_source", "databases.mesh_log_source", "agents",
	"tasks.statuses.open", "tasks.statuses.in_progress", "tasks.statuses.blocked", "tasks.statuses.completed", "tasks.statuses.cancelled",
	"tasks.fields", "sync.interval", "sync.waiting", "schedule.sweep", "schedule.full_sync", "events.keep", "journal.keep", "log.level", "socket_user",
	"limits.zone", "claim.breaker.failures", "claim.breaker.within", "claim.breaker.pause",
}

// Reload changes the configuration of the running daemon to c, which must be valid. If a key
// changed that needs a restart, Reload changes nothing and returns an error that names it. An
// interval that is running ends when it would have.
func (d *Daemon) Reload(c config.Config) error {
	d.reloading <- struct{}{}
	defer func() { <-d.reloading }()
	before := *d.live.Load()
	changed := config.Changed(before, c)
	if fixed := slices.DeleteFunc(slices.Clone(changed), func(key string) bool { return slices.Contains(reloadable, key) }); len(fixed) > 0 {
		return fmt.Errorf("%s cannot change while the daemon runs: restart it", strings.Join(fixed, ", "))
	}
	l := d.leader.Load()
	if l != nil {
		if err := l.reload(before, c); err != nil {
			return err
		}
	}
	if d.logLevel != nil {
		d.logLevel.Set(c.Log.Severity())
	}
	d.live.Store(&c)
	if d.shared != nil {
		d.shared.front.SetListed(listed(c))
		d.shared.member.SetAgents(namesAt(c))
	}
	if l != nil {
		if err := l.jobs.reschedule(before.Schedule, c.Schedule); err != nil {
			return err // impossible: both are valid
		}
	}
	d.log.Info("the configuration has changed", "keys", changed)
	return nil
}

// reload applies a changed configuration to the parts of a daemon that leads.
func (d *leader) reload(before, c config.Config) error {
	if c.Sync.Interval > d.config.Sync.Interval {
		return fmt.Errorf("sync.interval: %v is longer than the %v at the daemon's start, on which the grace of abandoned claims depends: restart the daemon", c.Sync.Interval, d.config.Sync.Interval)
	}
	if !maps.Equal(workspace.Schema(before).NotionUsers, workspace.Schema(c).NotionUsers) {
		return errors.New("agents: which Notion user stands for an agent cannot change while the daemon runs: restart it")
	}
	if token, err := c.Notion.ReadToken(d.log); err != nil {
		return err
	} else if !d.notion.Uses(string(token)) {
		return errors.New("the Notion token has changed, which cannot be reloaded: restart the daemon")
	}
	if err := d.notion.SetRate(c.Notion.Rate, c.Notion.Burst); err != nil {
		return err
	}
	if err := d.choose(before.Databases, c.Databases); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst))
	}
	if err := d.renameStatuses(before, c); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst), d.choose(c.Databases, before.Databases))
	}
	if err := d.setFields(before.Tasks.Fields, c.Tasks); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst), d.choose(c.Databases, before.Databases))
	}
	if err := d.journal.SetLeads(context.Background(), leads(c)); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst))
	}
	if err := d.journal.SetBounds(context.Background(), boundsOf(c)); err != nil {
		return errors.Join(err, d.notion.SetRate(before.Notion.Rate, before.Notion.Burst))
	}
	d.broker.SetAgents(agentsOf(c))
	d.server.SetListed(listed(c))
	d.mirror.SetPace(c.Sync.Interval, c.Sync.Waiting)
	return nil
}

// chooseWait is how long a reload waits for Notion.
const chooseWait = time.Minute

// choose switches the client to the data sources in after. Another data source for the tasks is
// refused, and nothing changes, while tasks can be claimed, or if it lacks a task that is held here,
// or the properties of a task.
func (d *leader) choose(before, after config.Databases) error {
	if before.TasksSource == after.TasksSource {
		workspace.Choose(d.notion, after)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseWait)
	defer cancel()
	tasks := task.ID(after.Tasks)
	source, err := d.notion.FindSource(ctx, tasks, workspace.TasksSource, after.TasksSource)
	if err != nil {
		return fmt.Errorf("databases.tasks_source: %w", err)
	}
	used := notion.Choice{Wanted: after.TasksSource, Source: source.ID}
	was := d.notion.Sources()
	switch {
	case source.ID == was[tasks].Source:
	case d.tasks.Check(ctx) == nil:
		return errors.New("databases.tasks_source cannot change while the tasks can be claimed: restart the daemon")
	default:
		if err := d.hasHeld(ctx, used); err != nil {
			return fmt.Errorf("databases.tasks_source: %w", err)
		}
	}
	workspace.Choose(d.notion, after)
	d.notion.RecallSources(map[task.ID]notion.Choice{tasks: used})
	if err := d.tasks.Check(ctx); err != nil {
		workspace.Choose(d.notion, before)
		d.notion.RecallSources(was)
		return fmt.Errorf("databases.tasks_source: %w", err)
	}
	return errors.Join(d.keepSources(ctx), mirror.KeepSchema(ctx, d.journal, d.tasks.Known()))
}

// renameStatuses follows a renaming of options in Notion. It is refused, and nothing changes, while
// tasks can still be claimed under the old names, or cannot be claimed under the new ones.
func (d *leader) renameStatuses(before, after config.Config) error {
	names := workspace.Schema(after).Statuses
	if maps.Equal(workspace.Schema(before).Statuses, names) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseWait)
	defer cancel()
	if err := d.tasks.SetStatuses(ctx, names); err != nil {
		return fmt.Errorf("tasks.statuses: %w", err)
	}
	return mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}

// setFields changes the extra fields; the next sync reads them for all tasks.
func (d *leader) setFields(before []string, after config.Tasks) error {
	if slices.Equal(before, after.Fields) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), chooseWait)
	defer cancel()
	if err := d.tasks.SetFields(ctx, after.Fields); err != nil {
		return fmt.Errorf("tasks.fields: %w", err)
	}
	d.broker.SetFields(after.Selectable())
	d.mirror.Anew()
	return mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}
