package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"dibs/config"
	"dibs/internal/daemon"

	"github.com/spf13/cobra"
)

// serving is the output of `serve --json` once agents can connect.
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
			"foreground, logs on stderr, reads its configuration again on SIGHUP and stops in good order on\n" +
			"SIGTERM or Ctrl-C. With --json it prints where it serves once it does. Under systemd it takes\n" +
			"over the socket that systemd opened, and says when it is ready and that it is alive.",
		Example: "  NOTION_TOKEN=ntn_… dibs serve",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reloads := reloadSignals() // first, so that no SIGHUP ends the process
			load := func() (config.Config, error) {
				return config.Load(config.Options{File: a.config, Socket: a.socket, StateDir: stateDir})
			}
			c, err := load()
			if err != nil {
				return err
			}
			passed, err := passedListener()
			if err != nil {
				return err
			}
			var level slog.LevelVar
			level.Set(c.Log.Severity())
			log := slog.New(c.Log.Handler(a.stderr, &level))
			d, err := daemon.Start(cmd.Context(), daemon.Options{
				Config: c, Version: thisBuild().Version, Listener: passed, Log: log, LogLevel: &level,
			})
			if err != nil {
				return err
			}
			if a.json {
				where := serving{Socket: d.Addr().String(), StateDir: c.StateDir, PID: os.Getpid()}
				if err := a.print(where, func(io.Writer) {}); err != nil {
					return errors.Join(err, d.Close())
				}
			}
			reload := func() error {
				c, err := load()
				if err != nil {
					return err
				}
				return d.Reload(c)
			}
			return managed(cmd.Context(), d, reloads, reload, log)
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "a `directory` for what the daemon must not forget (or DIBS_STATE_DIR)")
	return cmd
}

// managed runs a daemon and reports its state to the service manager.
func managed(ctx context.Context, d *daemon.Daemon, reloads <-chan os.Signal, reload func() error, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	warn := func(err error) {
		if err != nil {
			log.Warn(err.Error())
		}
	}
	warn(tellReady("serving on " + d.Addr().String()))
	beside.Go(func() { onReload(ctx, reloads, reload, log) })
	beside.Go(func() {
		if err := assureAlive(ctx, d.Alive, log); err != nil {
			log.Warn(err.Error())
		}
	})
	defer context.AfterFunc(ctx, func() { warn(tellStopping()) })()
	return d.Run(ctx)
}
