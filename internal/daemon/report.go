package daemon

import (
	"context"
	"os"
	"time"

	"dibs/internal/broker"
)

// note remembers the outcome of the last sync for the status.
func (d *Daemon) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = ""
	if err != nil {
		d.failure = err.Error()
	}
}

// report fills in what only the daemon knows of its own state.
func (d *Daemon) report(ctx context.Context, s *broker.Status) error {
	s.Version, s.PID, s.Started = d.version, os.Getpid(), d.started
	s.Socket, s.StateDir = d.listen.Addr().String(), d.config.StateDir
	s.Warnings = append(s.Warnings, d.tasks.Warnings()...)

	stats := d.notion.Stats()
	s.Notion = broker.NotionStatus{
		BaseURL: d.config.Notion.BaseURL, ClockSkewMS: time.Until(d.notion.Now()).Milliseconds(),
	}
	for _, c := range stats.Requests {
		s.Notion.Requests += int64(c.N)
	}
	if stats.PausedUntil.After(time.Now()) {
		s.Notion.PausedUntil = stats.PausedUntil
	}
	d.mu.Lock()
	s.Notion.LastError = d.failure
	d.mu.Unlock()

	owed, err := d.journal.OutboxStats(ctx)
	for _, log := range owed {
		s.Outbox.Depth += log.Depth
		if s.Outbox.Oldest.IsZero() || log.Oldest.Before(s.Outbox.Oldest) {
			s.Outbox.Oldest = log.Oldest
		}
		if log.LastError != "" {
			s.Outbox.LastError = log.LastError
		}
	}
	return err
}
