package cli

import (
	"dibs/internal/api"

	"github.com/spf13/cobra"
)

func (a *app) readyCommand() *cobra.Command {
	filter := api.TaskFilter{Ready: true}
	cmd := &cobra.Command{
		Use:               "ready",
		Short:             "List the tasks that could be claimed now",
		Long:              "List the tasks that could be claimed now, in the order in which dibs next offers them.",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.tasks(cmd, filter) },
	}
	addLimit(cmd, &filter.Limit)
	return cmd
}
