package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

func (a *app) tasksCommand() *cobra.Command {
	var filter api.TaskFilter
	var flags filterFlags
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "List the tasks of the queue",
		Long: "List the tasks of the queue, as the daemon's copy of the database has them: first what is being\n" +
			"worked on, then what is ready, what waits and for what, and what is finished. --agent limits the\n" +
			"list to those claimed by one name or assigned to it; with --ready, to those that it could claim.",
		Example: "  dibs tasks --status open\n  dibs tasks --agent Sandman --json\n  dibs tasks --where Sprint=42 --text login",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if filter.Agent, err = a.only(cmd); err != nil {
				return err
			}
			if filter.Filter, err = flags.filter(); err != nil {
				return err
			}
			return a.tasks(cmd, filter)
		},
	}
	cmd.Flags().StringVar(&filter.Status, "status", "", "only tasks in this `status`, as the board calls it, or open, in_progress, blocked, completed, cancelled, review or failed")
	cmd.Flags().BoolVar(&filter.Ready, "ready", false, "only tasks that could be claimed now, in the order they are offered")
	flags.add(a, cmd)
	addLimit(cmd, &filter.Limit)
	completeFlag(cmd, "status", a.statuses)
	return cmd
}

// addLimit adds --limit.
func addLimit(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 0, fmt.Sprintf("at most that many (0: all; not given: %d, or all with --json)", defaultLimit))
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
	if a.json {
		return writeJSON(a.stdout, list)
	}
	now := time.Now()
	switch {
	case list.SyncedAt.IsZero():
		a.say("The daemon has not read the tasks database yet.")
	case list.LimitReached && len(list.Tasks) == 0:
		a.say("%s holds as many tasks as it may (max_per_agent): it can claim none before it finishes or releases one, see dibs whoami.", clean(filter.Agent))
	case len(list.Tasks) == 0:
		a.say("%s, as of %s.", none(filter), ago(list.SyncedAt.Time, now))
	case list.Stale:
		a.say("This is as of %s: Notion was not read since; see: dibs status", ago(list.SyncedAt.Time, now))
	}
	shown, left := list.Tasks, max(0, list.Total-len(list.Tasks))
	if !cmd.Flags().Changed("limit") {
		shown, left = limited(list.Tasks, defaultLimit)
	}
	show := showTasks
	if filter.Why {
		show = showReasons
	}
	err = a.list(nil, func(t *table) { show(t, shown, now) })
	a.more(left)
	return err
}

// none says that there are no tasks, and repeats the filter.
func none(f api.TaskFilter) string {
	text := "No tasks"
	switch {
	case f.Ready && f.Filter.Empty():
		text = "No task is ready"
	case f.Ready:
		text = "No task that matches is ready"
	case !f.Filter.Empty():
		text = "No tasks that match"
	}
	if f.Status != "" {
		text += " in " + clean(f.Status)
	}
	if f.Agent != "" {
		text += " with the name of " + clean(f.Agent)
	}
	return text
}

func showTasks(t *table, tasks []api.Task, now time.Time) {
	if len(tasks) == 0 {
		return
	}
	names := []string{"TASK", "STATUS", "PRIORITY", "HOLDER", "TITLE"}
	noted := false
	for _, one := range tasks {
		noted = noted || note(one) != ""
	}
	if noted {
		names = append(names, "NOTE")
	}
	t.whole = slices.Index(names, "TITLE")
	t.head(names...)
	for _, one := range tasks {
		style := statusStyle(one)
		cells := []cell{plain(handle(one.TaskRef)), plain(clean(one.StatusWord())).in(style), plain(clean(one.PriorityWord())),
			plain(holder(one, now)), plain(short(one.Title))}
		if noted {
			cells = append(cells, plain(note(one)).in(faint))
		}
		t.add(cells...)
	}
}

// handle returns the shortest name of a task for use in a command.
func handle(t api.TaskRef) string { return clean(cmp.Or(t.Key, string(t.ID))) }

// note says why a task is not ready, unless status and holder show it.
func note(t api.Task) string {
	switch claim.Code(t.Code) {
	case "", claim.CodeHeld:
		return ""
	case claim.CodeNotOpen:
		if t.Status != task.Open && t.Status != task.InProgress && t.Status != task.Unknown {
			return ""
		}
	}
	return clean(strings.TrimPrefix(t.Reason, "it "))
}

func statusStyle(t api.Task) ansi.Style {
	switch {
	case t.Ready:
		return green
	case t.Status == task.InProgress, t.Status == task.Review:
		return yellow
	case t.Status == task.Blocked, t.Status == task.Failed, t.Status == task.Unknown:
		return red
	case t.Status.Finished():
		return faint
	}
	return nil
}

// holder says who has a task, and until when.
func holder(t api.Task, now time.Time) string {
	switch {
	case t.Offer != nil:
		return fmt.Sprintf("%s (%s)", clean(t.Offer.To), t.Offer.State)
	case t.AssignedTo != "":
		return "assigned to " + clean(t.AssignedTo)
	case t.Agent == "":
		return "-"
	case t.ExpiresAt.IsZero():
		return clean(t.Agent)
	case t.ExpiresAt.After(now):
		return fmt.Sprintf("%s (%s left)", clean(t.Agent), length(t.ExpiresAt.Sub(now)))
	}
	return fmt.Sprintf("%s (lease ended %s)", clean(t.Agent), ago(t.ExpiresAt.Time, now))
}

func checkLimit(limit int) error {
	if limit < 0 {
		return usagef("--limit %d: want 0 or more", limit)
	}
	return nil
}
