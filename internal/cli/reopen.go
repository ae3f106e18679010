package cli

import (
	"cmp"

	"dibs/internal/api"
	"dibs/internal/task"

	"github.com/spf13/cobra"
)

func (a *app) reopenCommand() *cobra.Command {
	var body api.ReopenRequest
	cmd := &cobra.Command{
		Use:   "reopen TASK",
		Short: "Open a task again that is blocked, failed, in review or finished",
		Long: "Open a task again that is BLOCKED, FAILED or in REVIEW: it becomes OPEN, with name, date and token\n" +
			"taken off, and how often it was tried (claim.max_attempts) is forgotten. A task in another status, such\n" +
			"as COMPLETED or CANCELLED, is opened only with --was, which says in which status you saw it: if the\n" +
			"task has another one by now, it stays as somebody has decided since. A person's name on the task stays\n" +
			"too, unless --holder says that you saw it; that of the last claim goes. A task that somebody holds is\n" +
			"left alone. In all these cases the exit code is 3. The name in --agent or DIBS_AGENT signs the note;\n" +
			"without one, the name of your account does.",
		Example:           "  dibs reopen T-3 --note \"the ladder came\"\n  dibs reopen T-3 --was completed --note \"the ridge leaks\"",
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
			body.Agent = a.agent
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			done, err := daemon.Reopen(cmd.Context(), id, body, a.request)
			if err != nil {
				return err
			}
			if done.Was == task.Open {
				return a.answer(done, quoted(done.Task)+" is open already")
			}
			return a.answer(done, "reopened "+quoted(done.Task)+", which was "+clean(cmp.Or(done.WasName, string(done.Was))))
		},
	}
	cmd.Flags().StringVar(&body.Note, "note", "", "why, a `text`")
	cmd.Flags().StringVar(&body.Was, "was", "", "the `status` that it was seen in, as the board calls it, or blocked, completed, cancelled, review, failed or in_progress")
	cmd.Flags().StringVar(&body.Holder, "holder", "", "the `name` that was seen on the task, if it is not that of its last claim")
	completeFlag(cmd, "was", a.statuses)
	a.addRequestID(cmd)
	return cmd
}
