package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/daemon/metrics"
	"dibs/internal/journal"
)

// reporter implements broker.Daemon.
type reporter struct{ *leader }

func (r reporter) Doubt() error { return r.doubt.Why() }

func (r reporter) Claimed(agent string, err error, took time.Duration) {
	r.metrics.Claimed(agent, err, took)
}

// Report fills in the parts of the status that only the daemon knows.
func (r reporter) Report(ctx context.Context, s *api.Status) {
	s.Version, s.PID, s.StartedAt = r.version, os.Getpid(), api.Time{Time: r.started}
	s.Socket, s.StateDir = r.listen.Addr().String(), r.config.StateDir
	if err := r.journal.Trouble(ctx); err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("nothing is accepted, because the journal cannot be written: %v", err))
	}
	if why := r.doubt.Why(); why != nil {
		s.Warnings = append(s.Warnings, why.Error())
	}
	if lost := r.journal.Lost().String(); lost != "" {
		s.Warnings = append(s.Warnings, lost)
	}
	if beside := r.doubt.Stranger(); beside != "" {
		s.Policy.Stranger = beside
		if r.claimer.Policy().Exclusive {
			s.Warnings = append(s.Warnings, beside+": "+api.OneJournal)
		}
	}
	s.Warnings = append(s.Warnings, r.tasks.Warnings()...)
	for _, q := range r.queues {
		s.Warnings = append(s.Warnings, q.Troubles()...)
	}
	// Between read and write of a claim, a person's edit would be overwritten.
	if n, median, slowest := r.overwrites.Sum(); n > 0 {
		s.ReadToWrite = &api.ReadToWrite{Writes: n, MedianSeconds: median.Seconds(), SlowestSeconds: slowest.Seconds()}
	}
	s.Webhook = r.hookStatus()
	if r.shared != nil {
		s.Cluster = r.shared.report()
	}
	stats := r.notion.Stats()
	s.Notion = api.NotionStatus{
		BaseURL: r.config.Notion.BaseURL, ClockSkewMS: time.Until(r.notion.Now()).Milliseconds(),
	}
	for _, c := range stats.Requests {
		s.Notion.Requests += int64(c.N)
	}
	if stats.PausedUntil.After(time.Now()) {
		s.Notion.PausedUntil = api.Time{Time: stats.PausedUntil}
	}
	failure := r.mirror.Standing().Failure
	if down := r.notion.Down(); down != nil {
		failure = down // may be known before a sync fails
	}
	if _, ours := errors.AsType[*claim.JournalError](failure); failure != nil && !ours {
		s.Notion.LastError = failure.Error()
	}

	owed, err := r.owed(ctx)
	all := journal.Total(owed)
	s.Outbox = api.OutboxStatus{Depth: all.Depth, Finishes: all.Finishes, Oldest: api.Time{Time: all.Oldest}, LastError: all.LastError}
	if err != nil {
		s.Outbox.LastError = err.Error()
	}
}

// owed returns the backlog of each outbox.
func (d *leader) owed(ctx context.Context) ([]journal.Backlog, error) {
	return d.journal.Backlog(ctx, d.claimer.Finishing())
}

// standing returns the gauges, read anew for every scrape.
func (d *leader) standing(ctx context.Context) (metrics.State, error) {
	status, err := d.broker.Status(ctx, broker.Caller{}, nil)
	if err != nil {
		return metrics.State{}, err
	}
	sent := d.notion.Stats()
	state := metrics.State{
		Waiting: make(map[string]int, len(sent.Waiting)), Permits: sent.Permits, Burst: sent.Burst,
		Paused:    time.Until(sent.PausedUntil),
		ClockSkew: time.Until(d.notion.Now()),
		Mirror:    status.Mirror, Held: make(map[string]int), Reservations: len(status.Reservations),
	}
	if d.shared != nil {
		state.Cluster = d.shared.state()
	}
	state.Doubted = d.doubt.Why() != nil
	for _, c := range sent.Requests {
		state.Requests = append(state.Requests, metrics.Requests(c))
	}
	for lane, n := range sent.Waiting {
		state.Waiting[lane.String()] = n
	}
	for _, c := range d.broker.Claims("").Claims {
		if c.State == claim.Held {
			state.Held[c.Agent]++
		}
	}
	for _, q := range d.queues {
		if to, t := q.Tally(); to != "" {
			state.Notices = append(state.Notices, metrics.Notices{Receiver: to, Sent: t.Sent, Failed: t.Failed, GivenUp: t.GivenUp})
		}
	}
	owed, err := d.owed(ctx)
	if err != nil { // not known
		return state, nil
	}
	for _, log := range []claim.Log{journal.Finishes, claim.MeshLog, claim.TaskLog, claim.Comments} { // an empty log is reported as 0
		backlog := metrics.Backlog{Log: string(log)}
		for _, b := range owed {
			if b.Log == log {
				backlog.Depth, backlog.InDoubt, backlog.Age = b.Depth, b.InDoubt, max(0, d.notion.Now().Sub(b.Oldest))
			}
		}
		state.Outbox = append(state.Outbox, backlog)
	}
	return state, nil
}

// Webhook implements broker.Daemon.
func (r reporter) Webhook() api.Webhook {
	known := r.hooks.receiver.State()
	w := api.Webhook{Token: known.Token, Address: r.hookURL(), Received: known.Received, RefusedAt: api.Time{Time: known.Refused}, Refused: r.hooksIn.Refused()}
	if !known.Last.IsZero() {
		w.LastAt = &api.Time{Time: known.Last}
	}
	return w
}

// RenewWebhook implements broker.Daemon.
func (r reporter) RenewWebhook(ctx context.Context, by string) error {
	err := r.hooks.receiver.Renew(ctx)
	if err == nil {
		r.log.Info("the verification token of the webhook is forgotten; the next one is kept", claim.AttrBy, by)
	}
	return err
}

// hookStatus returns the status of the webhook; nil if none is listened for, and none ever came.
func (d *leader) hookStatus() *api.WebhookStatus {
	known := d.hooks.receiver.State()
	address := d.hookURL()
	if address == "" && known.Token == "" {
		return nil
	}
	s := &api.WebhookStatus{
		Address: address, Verified: known.Token != "", Received: known.Received, LastAt: api.Time{Time: known.Last}, Refused: d.hooksIn.Refused(),
		Edits: int(d.hooks.heard.Load()), Polled: int(d.hooks.polled.Load()), Missed: int(d.hooks.missed.Load()),
	}
	if n, median, slowest := d.hooks.delays.Sum(); n > 0 {
		s.MedianSeconds, s.SlowestSeconds = median.Seconds(), slowest.Seconds()
	}
	return s
}
