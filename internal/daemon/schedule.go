package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/config"

	"github.com/robfig/cron/v3"
)

// jobs are what the daemon does at the times of its schedule.
type jobs struct {
	*cron.Cron
	run map[string]func()       // by their keys in the configuration
	ids map[string]cron.EntryID // of those that are on the schedule, by the same keys
}

// newJobs returns the jobs, which run at their times once Start is called.
func (d *works) newJobs(ctx context.Context, s config.Schedule) (*jobs, error) {
	j := &jobs{
		Cron: cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger))),
		run:  make(map[string]func()), ids: make(map[string]cron.EntryID),
	}
	for key, job := range map[string]func(context.Context) error{
		"sweep": func(ctx context.Context) error {
			swept, err := d.broker.Sweep(ctx, "", "")
			for _, s := range swept.Swept {
				d.log.Info("swept", "task", s.Task, "title", s.Title, "former", s.Agent)
			}
			return err
		},
		"full_sync": func(ctx context.Context) error {
			_, err := d.mirror.SyncAll(ctx)
			return err
		},
		"prune": func(ctx context.Context) error {
			keep := d.live.Load()
			if _, err := d.journal.Prune(ctx, time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			if _, err := d.journal.PruneFeed(ctx, time.Now().Add(-keep.Events.Keep)); err != nil {
				return err
			}
			// What a poll took that is not heard of again can be had for as long as anything else.
			if _, err := d.journal.PruneInbox(ctx, time.Now().Add(-keep.Events.Keep-d.config.Inbox.Visibility)); err != nil {
				return err
			}
			if _, err := d.journal.PruneHistory(ctx, time.Now(), time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			return d.journal.Compact(ctx)
		},
		"tally": d.tally.store,
	} {
		j.run[key] = func() {
			if err := job(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("a scheduled job failed", "job", key, "error", err)
			}
		}
	}
	return j, errors.Join(j.set("sweep", s.Sweep), j.set("full_sync", s.FullSync), j.set("prune", "@every 1h"), j.set("tally", "@every 1m"))
}

// set puts a job on the schedule, or moves it.
func (j *jobs) set(key, spec string) error {
	id, err := j.AddFunc(spec, j.run[key])
	if err != nil {
		return fmt.Errorf("schedule.%s: %q: %w", key, spec, err)
	}
	if old, ok := j.ids[key]; ok {
		j.Remove(old)
	}
	j.ids[key] = id
	return nil
}

// reschedule moves the jobs whose times have changed. d.reloading is taken.
func (d *works) reschedule(before, after config.Schedule) error {
	if d.jobs == nil {
		return nil // Run has yet to make them
	}
	var errs []error
	if before.Sweep != after.Sweep {
		errs = append(errs, d.jobs.set("sweep", after.Sweep))
	}
	if before.FullSync != after.FullSync {
		errs = append(errs, d.jobs.set("full_sync", after.FullSync))
	}
	return errors.Join(errs...)
}
