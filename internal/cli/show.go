package cli

import (
	"io"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show TASK",
		Short:             "Show a task",
		Long:              "Show a task, named by its Notion page id or URL, as the daemon's copy of the database has it.",
		Args:              arguments("TASK"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			t, err := daemon.Task(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.print(t, func(w io.Writer) { showTask(w, t, time.Now()) })
		},
	}
}

func showTask(w io.Writer, t api.Task, now time.Time) {
	line := func(name, value string) {
		if value != "" {
			row(w, name, value)
		}
	}
	line("title", clean(t.Title))
	line("task", clean(string(t.ID)))
	line("url", clean(t.URL))
	line("status", clean(string(t.Status)))
	line("priority", clean(t.Priority))
	if t.AssignedTo != "" {
		line("assigned to", clean(t.AssignedTo))
	} else {
		line("holder", holder(t, now))
	}
	line("note", clean(t.Note))
	line("claim", clean(string(t.ClaimID)))
	line("depends on", idList(t.DependsOn))
	line("waits for", idList(t.WaitsFor))
	if !t.CreatedAt.IsZero() {
		line("created", ago(t.CreatedAt.Time, now))
	}
	if !t.EditedAt.IsZero() {
		line("edited", ago(t.EditedAt.Time, now))
	}
	if t.Trashed {
		line("trashed", "yes")
	}
	switch {
	case t.Ready:
		line("ready", "yes")
	case t.AssignedTo != "" && len(t.WaitsFor) == 0:
		line("ready", "for "+clean(t.AssignedTo)+" only")
	default:
		line("ready", "no")
	}
}

func idList(ids []task.ID) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return clean(strings.Join(list, " "))
}
