package cli

import (
	"os"

	"dibs/internal/demo"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, board bool
	var machines int
	var database string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See two agents and a person share a board, without an account",
		Long: "Run a Notion-compatible server with some twenty tasks, a daemon, and two agents that claim and\n" +
			"finish tasks until nothing is ready, while a person edits the board. Nothing outside this\n" +
			"machine is touched, and no configuration is read. A link shows all of it in the browser, as long\n" +
			"as the demo runs, or with --board until it is stopped. Exit code 1: a task was granted twice, or\n" +
			"a log entry is missing or doubled.\n\n" +
			"With --machines there are several daemons, each with two agents, as on machines of their own\n" +
			"that share one journal in PostgreSQL. The one that leads is killed on the way, and another one\n" +
			"goes on. A PostgreSQL server is started for that, if the programs are installed, and ends with\n" +
			"the demo; --postgres names one that runs.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case machines < 1 || machines > demo.MostMachines:
				return usagef("--machines %d: want a number from 1 to %d", machines, demo.MostMachines)
			case database != "" && machines == 1:
				return usagef("--postgres is for --machines 2 and more: one daemon needs none")
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			return demo.Run(cmd.Context(), demo.Options{
				JSON: a.json, Keep: keep, Board: board, Version: thisBuild().Version, Out: a.stdout, Err: a.stderr,
				Machines: machines, Program: program, Postgres: database,
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave daemon and server running, and say how to try claims by hand")
	cmd.Flags().IntVar(&machines, "machines", 1, "how many daemons there are, which share a journal")
	cmd.Flags().StringVar(&database, "postgres", "", "the `URL` of a PostgreSQL database for their journal (default: a server is started)")
	cmd.Flags().BoolVar(&board, "board", false, "keep the board in the browser open until it is stopped")
	return cmd
}
