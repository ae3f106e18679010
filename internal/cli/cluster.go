package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"dibs/internal/api"

	"github.com/spf13/cobra"
)

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the daemons that work as one with this one",
		Long: "Show the daemons that work as one with this one: those that have their journal in the same\n" +
			"PostgreSQL database (journal.postgres in the configuration), or the same etcd (cluster.etcd),\n" +
			"and the same tasks database.",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			c, err := daemon.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) { showCluster(w, c, time.Now()) })
		},
	}
	cmd.AddCommand(a.adoptCommand())
	return cmd
}

func (a *app) adoptCommand() *cobra.Command {
	var requestID key
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take a database or an etcd that was emptied or restored for the right one, for good",
		Long: "Take the database of the journal that was emptied, or restored to an older state, for the right one, for\n" +
			"good. The daemon grants nothing until its user, or root, says so: what was claimed, said and done\n" +
			"since is not known any more. What is on the tasks' pages stays as it is until its lease is over. Do so\n" +
			"only once no daemon with the newer database runs. With cluster.etcd: take an etcd that was emptied, restored from a copy, or set up anew for the cluster's, for good.\n" +
			"A daemon refuses such an etcd until you say so, on each machine: it says that tasks are\n" +
			"free which somebody has. What is held stays held, as the tasks' pages say.",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requestID.check(); err != nil {
				return err
			}
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			c, err := daemon.AdoptCluster(cmd.Context(), requestID.value)
			if err != nil {
				return err
			}
			return a.print(c, func(w io.Writer) {
				switch {
				case c.Adopted == nil: // a daemon of an earlier version does not say
				case *c.Adopted && c.Epoch > 0:
					row(w, "adopted", "the database as it is now")
				case c.Epoch > 0:
					row(w, "adopted", "nothing had to be: there is no doubt about the database")
				case *c.Adopted:
					row(w, "adopted", "etcd as it is now; say so on each machine whose daemon refuses it")
				default:
					row(w, "adopted", "nothing had to be: etcd is as this daemon left it")
				}
				showCluster(w, c, time.Now())
			})
		},
	}
	requestID.add(cmd)
	return cmd
}

func showCluster(w io.Writer, c api.Cluster, now time.Time) {
	if c.Epoch > 0 {
		showSharing(w, c, now)
		return
	}
	if len(c.Etcd) == 0 {
		row(w, "this daemon is in no cluster; see journal.postgres in the configuration")
		return
	}
	row(w, "etcd", clean(strings.Join(c.Etcd, ", ")))
	if c.LastError != "" {
		row(w, "trouble", clean(c.LastError))
	}
	if c.Leader == "" && c.LastError == "" {
		row(w, "leader", "none is known: nobody reads the board now")
	}
	if c.Apart {
		row(w, "apart", "this one reads the board itself: give all members the same version, and the same settings under tasks")
	}
	if c.Share != nil && (*c.Share == 0 || c.Waiting > 0) {
		row(w, "share", shareLine(c.ClusterStatus))
	}
	for _, m := range c.Members {
		var roles []string
		if m.Leader {
			roles = append(roles, "leader")
		}
		if m.Self {
			roles = append(roles, "this one")
		}
		name := clean(m.Name)
		if len(roles) > 0 {
			name += " (" + strings.Join(roles, ", ") + ")"
		}
		requests := fmt.Sprintf("%d requests a minute", m.RequestsPerMinute)
		if m.Share > 0 {
			requests = fmt.Sprintf("%d of %d requests a minute", m.RequestsPerMinute, m.Share)
		}
		if m.LagSeconds > 0 {
			requests += fmt.Sprintf(", %v behind the leader", time.Duration(m.LagSeconds)*time.Second)
		}
		row(w, "member", fmt.Sprintf("%s, seen %s, %s", name, ago(m.SeenAt.Time, now), requests))
		for _, line := range m.Differs {
			row(w, "", "differs: "+clean(line))
		}
	}
}

// showSharing shows daemons that share a journal.
func showSharing(w io.Writer, c api.Cluster, now time.Time) {
	if c.LastError != "" {
		row(w, "trouble", clean(c.LastError))
	}
	if c.Leader == "" {
		row(w, "leader", "none now: one of those that stand by leads in a moment")
	} else {
		row(w, "leader", fmt.Sprintf("%s since %s, epoch %d", clean(c.Leader), c.Since.Local().Format(time.DateTime), c.Epoch))
	}
	for _, m := range c.Members {
		does := "stands by"
		if m.Leader {
			does = "leads"
		}
		if m.Self {
			does += ", this one"
		}
		row(w, "member", fmt.Sprintf("%s, %s, seen %s", clean(m.Name), does, ago(m.SeenAt.Time, now)))
	}
}
