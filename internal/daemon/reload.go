package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dibs/config"
)

// reloadable are the keys that can change while the daemon runs.
var reloadable = []string{
	"notion.rate", "notion.burst", "agents", "sync.interval", "schedule.sweep", "schedule.full_sync", "events.keep", "log.level",
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
	if !slices.EqualFunc(before.Agents, c.Agents, func(a, b config.Agent) bool { return a.NotionUser == b.NotionUser }) && usesNotionUsers(before, c) {
		return fmt.Errorf("agents: which Notion user stands for an agent cannot change while the daemon runs: restart it")
	}
	if err := d.notion.SetRate(c.Notion.Rate, c.Notion.Burst); err != nil {
		return err
	}
	d.broker.SetAgents(agentsOf(c))
	if d.logLevel != nil {
		d.logLevel.Set(c.Log.Severity())
	}
	d.live.Store(&c)
	if err := d.reschedule(before.Schedule, c.Schedule); err != nil {
		return err // which cannot be: both are valid
	}
	d.log.Info("the configuration has changed", "keys", changed)
	return nil
}

func usesNotionUsers(configs ...config.Config) bool {
	return slices.ContainsFunc(configs, func(c config.Config) bool {
		return slices.ContainsFunc(c.Agents, func(a config.Agent) bool { return a.NotionUser != "" })
	})
}

// Alive reports whether the daemon can do anything at all: whether the journal,
// on which everything depends, can be read in time.
func (d *Daemon) Alive(ctx context.Context) error {
	_, err := d.broker.Claims(ctx, "")
	return err
}
