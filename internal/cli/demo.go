package cli

import (
	"dibs/internal/demo"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, board bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See two agents and a person share a board, without an account",
		Long: "Run a Notion-compatible server with some twenty tasks, a daemon, and two agents that claim and\n" +
			"finish tasks until nothing is ready, while a person edits the board. Nothing outside this\n" +
			"machine is touched, and no configuration is read. A link shows all of it in the browser. Exit code 1:\n" +
			"a task was granted twice, or a log entry is missing or doubled.",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), demo.Options{
				JSON: a.json, Keep: keep, Board: board, Version: thisBuild().Version, Out: a.stdout, Err: a.stderr,
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave daemon and server running, and say how to try claims by hand")
	cmd.Flags().BoolVar(&board, "board", false, "keep the board in the browser open until it is stopped")
	return cmd
}
