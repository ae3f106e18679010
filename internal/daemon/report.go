package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/journal"
)

// house implements broker.House.
type house struct{ *works }

func (h house) Doubt() error { return h.doubt.Why() }

// Report fills in the parts of the status that only the daemon knows.
func (d house) Report(ctx context.Context, s *api.Status) {
	s.Version, s.PID, s.StartedAt = d.version, os.Getpid(), api.Time{Time: d.started}
	s.Socket, s.StateDir = d.listen.Addr().String(), d.config.StateDir
	if err := d.journal.Trouble(ctx); err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("nothing is accepted, because the journal cannot be written: %v", err))
	}
	if why := d.doubt.Why(); why != nil {
		s.Warnings = append(s.Warnings, why.Error())
	}
	if said := d.journal.Lost().String(); said != "" {
		s.Warnings = append(s.Warnings, said)
	}
	if beside := d.doubt.Stranger(); beside != "" {
		s.Policy.Stranger = beside
		if d.claimer.Policy().Exclusive {
			s.Warnings = append(s.Warnings, beside+": "+api.OneJournal)
		}
	}
	s.Warnings = append(s.Warnings, d.tasks.Warnings()...)
	for _, q := range d.queues {
		s.Warnings = append(s.Warnings, q.Troubles()...)
	}
	// Between read and write of a claim, a person's edit would be overwritten.
	if n, median, slowest := d.overwrites.sum(); n > 0 {
		s.ReadToWrite = &api.ReadToWrite{Writes: n, MedianSeconds: median.Seconds(), SlowestSeconds: slowest.Seconds()}
	}
	s.Webhook = d.hookStatus()
	if d.shared != nil {
		s.Cluster = d.shared.report()
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
	failure := d.mirror.Standing().Failure
	if down := d.notion.Down(); down != nil {
		failure = down // may be known before a sync fails
	}
	if _, ours := errors.AsType[*claim.JournalError](failure); failure != nil && !ours {
		s.Notion.LastError = failure.Error()
	}

	owed, err := d.owed(ctx)
	all := journal.Total(owed)
	s.Outbox = api.OutboxStatus{Depth: all.Depth, Finishes: all.Finishes, Oldest: api.Time{Time: all.Oldest}, LastError: all.LastError}
	if err != nil {
		s.Outbox.LastError = err.Error()
	}
}

// owed returns the backlog of each outbox.
func (d *works) owed(ctx context.Context) ([]journal.Backlog, error) {
	return d.journal.Backlog(ctx, d.claimer.Finishing())
}
