package cli

import (
	"io"
	"log/slog"
	"os"

	"dibs/config"
	"dibs/internal/daemon"

	"github.com/spf13/cobra"
)

// serving is what `serve --json` prints once agents can come.
type serving struct {
	Socket   string `json:"socket"`
	StateDir string `json:"state_dir"`
	PID      int    `json:"pid"`
}

func (a *app) serveCommand() *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Run the daemon: claim tasks in Notion for the agents that ask on the socket. It runs in the\n" +
			"foreground, logs on stderr and stops in good order on SIGTERM or Ctrl-C. With --json it prints\n" +
			"where it serves once it does.",
		Example:           "  NOTION_TOKEN=ntn_… dibs serve",
		Args:              arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(config.Options{File: a.config, Socket: a.socket, StateDir: stateDir})
			if err != nil {
				return err
			}
			d, err := daemon.Start(cmd.Context(), daemon.Options{
				Config: c, Version: thisBuild().Version, Log: slog.New(c.Log.Handler(a.stderr)),
			})
			if err != nil {
				return err
			}
			if a.json {
				where := serving{Socket: d.Addr().String(), StateDir: c.StateDir, PID: os.Getpid()}
				if err := a.print(where, func(io.Writer) {}); err != nil {
					return err
				}
			}
			return d.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "a `directory` for what the daemon must not forget (or DIBS_STATE_DIR)")
	return cmd
}
