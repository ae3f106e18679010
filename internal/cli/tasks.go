package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) tasksCommand() *cobra.Command {
	var filter api.TaskFilter
	var status string
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "List the tasks of the queue",
		Long: "List the tasks of the queue, as the daemon's copy of the database has them. --agent limits the\n" +
			"list to those claimed by one name or assigned to it; with --ready, to those that it could claim.",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if status != "" {
				if filter.Status, err = task.ParseStatus(strings.ToUpper(status)); err != nil {
					return usagef("--status: %w", err)
				}
			}
			if filter.Agent, err = a.only(cmd); err != nil {
				return err
			}
			return a.tasks(cmd, filter)
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only tasks in this `status`: open, in_progress, blocked, completed or cancelled")
	cmd.Flags().BoolVar(&filter.Ready, "ready", false, "only tasks that could be claimed now, in the order they are offered")
	cmd.Flags().IntVar(&filter.Limit, "limit", 0, "at most that many (0: all)")
	return cmd
}

// tasks lists the tasks that the filter selects.
func (a *app) tasks(cmd *cobra.Command, filter api.TaskFilter) error {
	if err := checkLimit(filter.Limit); err != nil {
		return err
	}
	daemon, err := a.daemon()
	if err != nil {
		return err
	}
	list, err := daemon.Tasks(cmd.Context(), filter)
	if err != nil {
		return err
	}
	now := time.Now()
	switch {
	case list.SyncedAt.IsZero():
		a.say("The daemon has not read the tasks database yet.")
	case list.LimitReached:
		a.say("%s holds as many tasks as an agent may (claim.max_per_agent): it can claim none before it finishes or releases one.", clean(filter.Agent))
	case len(list.Tasks) == 0:
		a.say("No tasks, as of %s.", ago(list.SyncedAt.Time, now))
	case list.Stale:
		a.say("As of %s: not synced since; see: dibs status", ago(list.SyncedAt.Time, now))
	}
	return a.print(list, func(w io.Writer) {
		if len(list.Tasks) == 0 {
			return
		}
		row(w, "TASK", "STATUS", "PRIORITY", "HOLDER", "TITLE")
		for _, t := range list.Tasks {
			row(w, clean(string(t.ID)), clean(string(t.Status)), clean(t.Priority), holder(t, now), short(t.Title))
		}
	})
}

// holder says who has a task and for how long.
func holder(t api.Task, now time.Time) string {
	switch {
	case t.ClaimedBy == "":
		return "-"
	case t.AssignedTo != "":
		return "assigned to " + clean(t.AssignedTo)
	case t.LeaseUntil.IsZero():
		return clean(t.ClaimedBy)
	case t.LeaseUntil.After(now):
		return fmt.Sprintf("%s (%s left)", clean(t.ClaimedBy), length(t.LeaseUntil.Sub(now)))
	}
	return fmt.Sprintf("%s (lease ended %s)", clean(t.ClaimedBy), ago(t.LeaseUntil.Time, now))
}

func checkLimit(limit int) error {
	if limit < 0 {
		return usagef("--limit %d: want 0 or more", limit)
	}
	return nil
}
