package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"dibs/internal/api"
	"dibs/internal/journal"
)

// staleAfter, and two intervals, is how long after the last sync the mirror counts
// as out of date: a daemon that is busy syncs late.
const staleAfter = 2 * time.Minute

// failing reports whether the last sync failed.
func (d *Daemon) failing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure != ""
}

// note remembers the outcome of the last sync for the status, and logs when it
// begins to fail and when it works again.
func (d *Daemon) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := d.failure != ""
	switch {
	case errors.Is(err, context.Canceled): // the daemon stops, or whoever asked has gone
	case err != nil:
		d.failure = err.Error()
		if !failed {
			d.log.Warn("sync failed; the tasks are as of the last one", "error", err)
		}
	default:
		d.failure = ""
		if failed {
			d.log.Info("sync works again")
		}
	}
}

// report fills in what only the daemon knows of its own state.
func (d *Daemon) report(ctx context.Context, s *api.Status) error {
	s.Version, s.PID, s.StartedAt = d.version, os.Getpid(), api.Time{Time: d.started}
	s.Socket, s.StateDir = d.listen.Addr().String(), d.config.StateDir
	if err := d.tasks.Broken(); err != nil {
		s.Warnings = append(s.Warnings, "no task can be claimed: "+err.Error())
	}
	s.Warnings = append(s.Warnings, d.tasks.Warnings()...)
	if p := d.mirror.Progress(); p != nil {
		s.Mirror.Syncing = api.NewSyncProgress(p.Read, p.Of)
	}

	stats := d.notion.Stats()
	s.Notion = api.NotionStatus{
		BaseURL: d.config.Notion.BaseURL, ClockSkewMS: time.Until(d.notion.Now()).Milliseconds(),
	}
	for _, c := range stats.Requests {
		s.Notion.Requests += int64(c.N)
	}
	if stats.PausedUntil.After(time.Now()) {
		s.Notion.PausedUntil = api.Time{Time: stats.PausedUntil}
	}
	d.mu.Lock()
	s.Notion.LastError = d.failure
	d.mu.Unlock()
	if down := d.notion.Down(); down != nil {
		s.Notion.LastError = down.Error() // which may be known before a sync has failed
	}

	owed, err := d.journal.Backlog(ctx)
	all := journal.Total(owed)
	s.Outbox = api.OutboxStatus{Depth: all.Depth, Finishes: all.Finishes, Oldest: api.Time{Time: all.Oldest}, LastError: all.LastError}
	return err
}
