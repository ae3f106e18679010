package cli

import (
	"io"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) reopenCommand() *cobra.Command {
	var note string
	var requestID key
	cmd := &cobra.Command{
		Use:   "reopen TASK",
		Short: "Open a task again that is blocked, failed, in review or finished",
		Long: "Open a task again that is BLOCKED, FAILED, in REVIEW, COMPLETED or CANCELLED: it becomes OPEN, with\n" +
			"name, date and token taken off, and how often it was tried (claim.max_attempts) is forgotten. A task\n" +
			"that somebody holds is left alone: exit code 3. The name in --agent or DIBS_AGENT, if there is one,\n" +
			"signs the note.",
		Args:              arguments("TASK"),
		ValidArgsFunction: a.someTasks(api.TaskFilter{}).first,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkAgent(); err != nil {
				return err
			}
			id, err := taskID(args[0])
			if err != nil {
				return err
			}
			if err := requestID.check(); err != nil {
				return err
			}
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			done, err := daemon.Reopen(cmd.Context(), id, api.ReopenRequest{Agent: a.agent, Note: note}, requestID.value)
			if err != nil {
				return err
			}
			return a.print(done, func(w io.Writer) {
				if done.Was == task.Open {
					row(w, quoted(done.Task)+" is open already")
					return
				}
				row(w, "reopened "+quoted(done.Task)+", which was "+string(done.Was))
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, a `text`")
	requestID.add(cmd)
	return cmd
}
