package cli

import (
	"dibs/internal/api"

	"github.com/spf13/cobra"
)

func (a *app) readyCommand() *cobra.Command {
	filter := api.TaskFilter{Ready: true}
	var flags filterFlags
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "List the tasks that could be claimed now",
		Long: "List the tasks that could be claimed now, in the order in which dibs next offers them: by priority,\n" +
			"then by how many unfinished tasks wait for them, then the oldest. With --agent,\n" +
			"those that this agent could claim: what is assigned to it comes first, and what is assigned to others\n" +
			"is left out. Without, those that any agent could claim. With --why, the other unfinished tasks follow,\n" +
			"each with what it waits for, or why it can never become ready and what to do about it.",
		Example: "  dibs ready --priority critical --where Area=Web\n" +
			"  dibs ready --agent Sandman --why",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if filter.Agent, err = a.only(cmd); err != nil {
				return err
			}
			if filter.Filter, err = flags.filter(); err != nil {
				return err
			}
			return a.tasks(cmd, filter)
		},
	}
	cmd.Flags().BoolVar(&filter.Why, "why", false, "say of each task that is not ready what it waits for")
	flags.add(a, cmd)
	addLimit(cmd, &filter.Limit)
	return cmd
}
