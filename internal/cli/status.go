package cli

import (
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of the daemon",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			s, err := daemon.Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { showStatus(w, s, time.Now()) })
		}),
	}
}

// statusReservations is how many reservations the status lists.
const statusReservations = 5

func showStatus(w io.Writer, s api.Status, now time.Time) {
	at := "" // what a door tells is the leader's
	if c := s.Cluster; c != nil && c.Name != c.Leader {
		at = " at " + clean(c.Leader)
	}
	row(w, "daemon", fmt.Sprintf("dibs %s, pid %d%s, started %s", clean(s.Version), s.PID, at, ago(s.StartedAt.Time, now)))
	row(w, "socket", clean(s.Socket)+at)
	row(w, "state", clean(s.StateDir)+at)
	row(w, "notion", notionLine(s.Notion, now))
	synced := "never read"
	if !s.Mirror.SyncedAt.IsZero() {
		synced = "read " + ago(s.Mirror.SyncedAt.Time, now)
	}
	if s.Mirror.Stale {
		synced += ", out of date"
	}
	if p := s.Mirror.Syncing; p != nil {
		synced += fmt.Sprintf(", reading it all now: %d so far", p.Read)
		if p.Percent != nil {
			synced += fmt.Sprintf(", %d %%", *p.Percent)
		}
	}
	row(w, "mirror", fmt.Sprintf("%d tasks, %d of them ready, %s", s.Mirror.Tasks, s.Mirror.Ready, synced))
	if c := s.Cluster; c != nil {
		row(w, "cluster", clusterLine(*c))
	}
	if s.Webhook != nil {
		row(w, "webhook", webhookLine(*s.Webhook, now))
	}
	row(w, "claims", fmt.Sprintf("%d held", s.ClaimsHeld))
	for _, p := range s.Pauses {
		row(w, "paused", pausedLine(p, now))
	}
	for i, r := range s.Reservations {
		if i == statusReservations {
			row(w, "reserved", fmt.Sprintf("… and %d more: dibs reservations", len(s.Reservations)-i))
			break
		}
		row(w, "reserved", somePatterns(r)+" by "+clean(r.Agent)+lasting(r.ExpiresAt, now))
	}
	row(w, "outbox", outboxLine(s.Outbox, now))
	p := s.Policy
	policy := fmt.Sprintf("leases of %s, write window %v, settle %v, override %s",
		length(seconds(p.TimeoutSeconds)), seconds(p.WriteWindowSeconds), seconds(p.SettleSeconds), clean(p.Override))
	if p.Exclusive {
		policy += ", exclusive"
	}
	row(w, "policy", policy)
	for _, warning := range s.Warnings {
		row(w, "warning", clean(warning))
	}
}

// clusterLine says which member leads, and which one answered.
func clusterLine(c api.ClusterStatus) string {
	line := fmt.Sprintf("%s leads since %s, epoch %d", clean(c.Leader), c.Since.Local().Format(time.DateTime), c.Epoch)
	if c.Name != c.Leader {
		line += "; " + clean(c.Name) + ", which was asked, is a door to it"
	}
	return line
}

func notionLine(n api.NotionStatus, now time.Time) string {
	line := fmt.Sprintf("%s, %d requests", clean(n.BaseURL), n.Requests)
	if n.PausedUntil.After(now) {
		line += ", paused for another " + length(n.PausedUntil.Sub(now))
	}
	if n.LastError != "" {
		line += ", last error: " + clean(n.LastError)
	}
	return line
}

func outboxLine(o api.OutboxStatus, now time.Time) string {
	switch {
	case o.Unknown():
		return "not known: " + clean(o.LastError)
	case o.Depth == 0:
		return "empty"
	}
	line := o.Owed()
	if !o.Oldest.IsZero() {
		line += ", the oldest from " + ago(o.Oldest.Time, now)
	}
	if o.LastError != "" {
		line += ", last error: " + clean(o.LastError)
	}
	return line
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
