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
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			s, err := client.Do(cmd.Context(), daemon, api.OpStatus, struct{}{})
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

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the daemons that work as one with this one",
		Long: "Show the daemons that work as one with this one: those that have their journal in the same\n" +
			"PostgreSQL database (journal.postgres in the configuration), for the same tasks database.\n" +
			"One of them leads, and does the work; the others are doors to it.",
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			c, err := client.Do(cmd.Context(), daemon, api.OpCluster, struct{}{})
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) { showCluster(w, c, time.Now()) })
		}),
	}
	cmd.AddCommand(a.adoptCommand())
	return cmd
}

func (a *app) adoptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take the journal as it is now for the right one",
		Long: "Take the journal as it is now for the right one, for good: one that was emptied, restored to an\n" +
			"older state, or set up anew. dibs grants nothing on such a journal until its user, or root, says\n" +
			"so: what was claimed, said and done since is not known any more. What is on the tasks' pages stays\n" +
			"as it is until its lease is over. Do so only once no daemon with the newer journal runs.",
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			c, err := client.Do(cmd.Context(), daemon, api.OpAdoptCluster, api.BareInput{Key: a.request})
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) {
				if *c.Adopted {
					row(w, "adopted", "the journal as it is now")
				} else {
					row(w, "adopted", "nothing had to be: there is no doubt about the journal")
				}
				if len(c.Members) > 0 {
					showCluster(w, c, time.Now())
				}
			})
		}),
	}
	a.addRequestID(cmd)
	return cmd
}

// silent is how long after its last sign of life a member is shown as away. Members give one every
// two seconds.
const silent = 10 * time.Second

func showCluster(w io.Writer, c api.Cluster, now time.Time) {
	if c.LastError != "" {
		row(w, "trouble", clean(c.LastError))
	}
	if len(c.Members) == 0 {
		row(w, "this daemon is in no cluster; see journal.postgres in the configuration")
		return
	}
	if c.Leader == "" {
		row(w, "leader", "none now: another member leads in a moment")
	} else {
		row(w, "leader", fmt.Sprintf("%s since %s, epoch %d", clean(c.Leader), c.Since.Local().Format(time.DateTime), c.Epoch))
	}
	for _, m := range c.Members {
		does := "a door"
		switch {
		case m.Leader:
			does = "leads"
		case now.Sub(m.SeenAt.Time) > silent:
			does = "away"
		}
		if m.Self {
			does += ", this one"
		}
		row(w, "member", fmt.Sprintf("%s, %s, at %s, seen %s", clean(m.Name), does, clean(m.Address), ago(m.SeenAt.Time, now)))
	}
}

func (a *app) syncCommand() *cobra.Command {
	var body api.SyncRequest
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Read from Notion what has changed, now",
		Long: "Read from Notion what has changed, now. The daemon does so by itself as sync.interval says. With\n" +
			"--full it reads the whole board, as it does at its start and as schedule.full_sync says: that\n" +
			"finds tasks that were trashed, archived, moved or are no longer shared, and changed properties.",
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
			done, err := client.Do(cmd.Context(), daemon, api.OpSync, api.Keyed(a.request, new(body)))
			if err != nil {
				return err
			}
			return a.print(done, func(w io.Writer) {
				what := "what was edited"
				if done.Full {
					what = "the whole board"
				}
				row(w, fmt.Sprintf("read %s: %d tasks, %d of them changed, %d gone; %d in all",
					what, done.Read, done.Changed, done.Gone, done.Tasks))
			})
		}),
	}
	cmd.Flags().BoolVar(&body.Full, "full", false, "read the whole board")
	a.addRequestID(cmd)
	return cmd
}

func (a *app) sweepCommand() *cobra.Command {
	var o sweepOptions
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Reopen tasks whose claim is stale, now",
		Long: "Reopen tasks whose claim is stale, now, and write onto the cards of tasks that can never become ready\n" +
			"why that is, once for each reason. The daemon does so by itself as schedule.sweep says.",
		RunE: a.asking(with(&o, a.runSweep)),
	}
	o.add(a, cmd)
	return cmd
}

type sweepOptions struct{ note string }

func (o *sweepOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.note, "note", "", "why, or who asks, a `text` for the record")
	a.addRequestID(cmd)
}

func (a *app) runSweep(cmd *cobra.Command, daemon *client.Client, o sweepOptions, _ []string) error {
	done, err := client.Do(cmd.Context(), daemon, api.OpSweep, api.SweepOf(a.request, api.SweepRequest{Note: o.note}))
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) {
		if len(done.Swept)+len(done.Told) == 0 {
			row(w, "nothing to sweep")
		}
		for _, t := range done.Told {
			row(w, "wrote onto "+quoted(t)+" why it can never become ready")
		}
		for _, s := range done.Swept {
			if s.Blocked {
				row(w, fmt.Sprintf("blocked %s, which %s had claimed: it was tried as often as claim.max_attempts allows",
					quoted(api.TaskRef{ID: s.Task, Title: s.Title}), clean(s.Agent)))
				continue
			}
			row(w, fmt.Sprintf("reopened %s, which %s had claimed", quoted(api.TaskRef{ID: s.Task, Title: s.Title}), clean(s.Agent)))
		}
	})
}
