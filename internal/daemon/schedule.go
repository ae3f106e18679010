package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/config"
	"dibs/internal/claim"

	"github.com/robfig/cron/v3"
)

// jobs is the daemon's schedule.
type jobs struct {
	*cron.Cron
	run map[string]func()       // by their keys in the configuration
	ids map[string]cron.EntryID // of the scheduled jobs, by the same keys
}

// newJobs returns the jobs. They run at their times once Start is called.
func (d *works) newJobs(ctx context.Context, s config.Schedule) (*jobs, error) {
	j := &jobs{
		Cron: cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger))),
		run:  make(map[string]func()), ids: make(map[string]cron.EntryID),
	}
	for key, job := range map[string]func(context.Context) error{
		"sweep": func(ctx context.Context) error {
			_, err := d.broker.Sweep(ctx, "", "")
			return err
		},
		"full_sync": func(ctx context.Context) error {
			_, err := d.mirror.SyncAll(ctx)
			return err
		},
		"prune": func(ctx context.Context) error {
			keep := d.live.Load()
			// Facts leave the feed first: Prune removes those that are in neither view.
			if _, err := d.journal.PruneFeed(ctx, time.Now().Add(-keep.Events.Keep)); err != nil {
				return err
			}
			if _, err := d.journal.Prune(ctx, time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			// A trigger that was taken and never acknowledged is kept as long as any other, counted
			// from the end of its visibility.
			if _, err := d.journal.PruneInbox(ctx, time.Now().Add(-keep.Events.Keep-d.config.Inbox.Visibility)); err != nil {
				return err
			}
			if _, err := d.journal.PruneSeen(ctx, time.Now().Add(-keep.Journal.Keep)); err != nil {
				return err
			}
			return d.journal.Compact(ctx)
		},
	} {
		j.run[key] = func() {
			if err := job(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("a scheduled job failed", "job", key, claim.AttrError, err)
			}
		}
	}
	return j, errors.Join(j.set("sweep", s.Sweep), j.set("full_sync", s.FullSync), j.set("prune", "@every 1h"))
}

// set schedules a job, or reschedules it.
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

// reschedule moves the jobs whose times have changed. The caller has locked d.reloading.
func (d *works) reschedule(before, after config.Schedule) error {
	if d.jobs == nil {
		return nil // run has not made them yet
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
