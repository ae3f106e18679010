package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"dibs/internal/api"

	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "status",
		Short:             "Show the state of the daemon",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			s, err := daemon.Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { showStatus(w, s, time.Now()) })
		},
	}
}

// statusReservations is how many reservations are shown with the state of the daemon.
const statusReservations = 5

func showStatus(w io.Writer, s api.Status, now time.Time) {
	row(w, "daemon", fmt.Sprintf("dibs %s, pid %d, started %s", clean(s.Version), s.PID, ago(s.StartedAt.Time, now)))
	row(w, "socket", clean(s.Socket))
	row(w, "state", clean(s.StateDir))
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
		line := fmt.Sprintf("member %s, etcd at %s", clean(c.Name), clean(strings.Join(c.Etcd, ", ")))
		if c.LastError != "" {
			line += ", which cannot be used"
		}
		switch {
		case c.Leads:
			line += "; it reads the board for all"
		case c.Apart:
			line += "; it reads the board for itself"
		case c.Leader != "":
			line += "; " + clean(c.Leader) + " reads the board"
		}
		if c.InboxOwed > 0 {
			line += fmt.Sprintf(", %d of the inbox to be passed on", c.InboxOwed)
		}
		row(w, "cluster", line)
		if c.Share != nil {
			row(w, "share", shareLine(*c))
		}
	}
	row(w, "claims", fmt.Sprintf("%d held", s.ClaimsHeld))
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

// shareLine says what a member of a cluster may send to Notion, and what waits for that.
func shareLine(c api.ClusterStatus) string {
	line := fmt.Sprintf("%d of %d requests a minute", *c.Share, c.Budget)
	switch {
	case *c.Share == 0 && c.LastError != "":
		line += ": nothing is sent until etcd can be used again"
	case *c.Share == 0:
		line += ": nothing is sent before this daemon has a share again, mostly within two minutes"
	case c.Waiting > 0:
		line += fmt.Sprintf(", %d wait for their turn; it grows by need, within two minutes", c.Waiting)
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
	if o.Depth == 0 {
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
