package cli

import (
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the daemons that work as one with this one",
		Long: "Show the daemons that work as one with this one: those that have their journal in the same\n" +
			"PostgreSQL database (journal.postgres in the configuration), for the same tasks database.\n" +
			"One of them leads, and does the work; the others are doors to it.",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			c, err := daemon.Cluster(cmd.Context())
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
		Short: "Take the database of the journal as it is now for the right one",
		Long: "Take the PostgreSQL database of the journal as it is now for the right one, for good: one that\n" +
			"was emptied, restored to an older state, or set up anew. dibs grants nothing on such a\n" +
			"database until its user, or root, says so: what was claimed, said and done since is not known any\n" +
			"more. What is on the tasks' pages stays as it is until its lease is over. Do so only once no daemon\n" +
			"with the newer database runs.",
		RunE: a.asking(func(cmd *cobra.Command, _ []string, daemon *client.Client) error {
			c, err := daemon.AdoptCluster(cmd.Context(), a.request)
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) {
				if *c.Adopted {
					row(w, "adopted", "the database as it is now")
				} else {
					row(w, "adopted", "nothing had to be: there is no doubt about the database")
				}
				showCluster(w, c, time.Now())
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
	if len(c.Members) == 0 {
		row(w, "this daemon is in no cluster; see journal.postgres in the configuration")
		return
	}
	if c.LastError != "" {
		row(w, "trouble", clean(c.LastError))
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
