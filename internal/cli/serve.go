package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"dibs/config"
	"dibs/internal/daemon"
	"dibs/internal/journal"

	"github.com/coreos/go-systemd/v22/activation"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
)

// serving is the output of `serve --json` once agents can connect.
type serving struct {
	Socket   string `json:"socket"`
	StateDir string `json:"state_dir"`
	PID      int    `json:"pid"`
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Run the daemon: claim tasks in Notion for the agents that ask on the socket. It runs in the\n" +
			"foreground, logs on stderr, reads its configuration again on SIGHUP and stops in good order on\n" +
			"SIGTERM or Ctrl-C. With --json it prints where it serves once it does. Under systemd it takes\n" +
			"over the socket that systemd opened, and says when it is ready and that it is alive.",
		Example: "  NOTION_TOKEN=ntn_… dibs serve",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type serveOptions struct{ stateDir string }

func (o *serveOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "a `directory` for what the daemon must not forget (or DIBS_STATE_DIR)")
}

func (a *app) runServe(cmd *cobra.Command, o serveOptions) error {
	reloads := reloadSignals() // first, so that no SIGHUP ends the process
	load := func() (config.Config, error) {
		return config.Load(config.Options{File: a.config, Socket: a.socket, StateDir: o.stateDir})
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
}

func (a *app) backupCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the journal",
		Long: "Copy the daemon's journal into a new file, whether or not the daemon runs: what it must not forget,\n" +
			"as of one moment. The file is there whole or not at all, and for this user alone. Put in the\n" +
			"journal's place, the daemon stopped, it is the journal again. A journal in PostgreSQL is not copied\n" +
			"by this command, which names the one that does.",
		Example: "  dibs backup /var/backups/dibs.db",
		Args:    arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(config.Options{File: a.config, Socket: a.socket, StateDir: o.stateDir})
			if err != nil {
				return err
			}
			if c.Journal.Shared() {
				space := c.Journal.Schema + "_" + strings.ReplaceAll(c.Databases.Tasks, "-", "")
				return usagef("the journal lies in PostgreSQL: copy it with pg_dump --schema %s --file %s --dbname, and the address in journal.postgres", space, args[0])
			}
			path := filepath.Join(c.StateDir, journal.FileName)
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no journal at %s: name its directory with --state-dir", path)
			}
			if err := journal.Backup(cmd.Context(), path, args[0]); err != nil {
				return err
			}
			return a.print(backup{args[0], path}, func(w io.Writer) { row(w, "copied", clean(path)+" to "+clean(args[0])) })
		},
	}
	o.add(cmd)
	return cmd
}

// backup is the output of `backup --json`.
type backup struct {
	File    string `json:"file"`
	Journal string `json:"journal"`
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

// passedListener returns the unix socket that systemd opened for the daemon, or nil if it opened none.
// Any other socket is an error: somebody expects the daemon to listen where it would not.
func passedListener() (net.Listener, error) {
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("the sockets passed by systemd: %w", err)
	}
	switch {
	case len(passed) == 0:
		return nil, nil
	case len(passed) > 1:
		err = fmt.Errorf("systemd passed %d sockets: want one ListenStream", len(passed))
	case passed[0] == nil:
		err = errors.New("systemd passed something that cannot be listened on: want a ListenStream")
	case passed[0].Addr().Network() != "unix":
		err = fmt.Errorf("systemd passed %s, where other machines could come in: want a ListenStream with the path of a unix socket; see metrics.listen for metrics", passed[0].Addr())
	default:
		return passed[0], nil
	}
	for _, l := range passed {
		if l != nil {
			l.Close()
		}
	}
	return nil, err
}

// tellReady tells systemd that the daemon serves, and sets its status line.
func tellReady(status string) error { return report(systemd.SdNotifyReady + "\nSTATUS=" + status) }

// tellStopping tells systemd that the daemon is about to end.
func tellStopping() error { return report(systemd.SdNotifyStopping) }

func report(state string) error {
	if _, err := systemd.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify systemd of the daemon's state: %w", err)
	}
	return nil
}

// assureAlive feeds systemd's watchdog while alive returns nil, until ctx ends. Without a watchdog it
// returns at once. If alive fails for too long, systemd restarts the daemon.
func assureAlive(ctx context.Context, alive func(context.Context) error, log *slog.Logger) error {
	within, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("systemd's watchdog: %w", err)
	}
	if within == 0 {
		return nil
	}
	ticker := time.NewTicker(within / 3)
	defer ticker.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, within/3)
		err := alive(check)
		cancel()
		if err == nil {
			err = report(systemd.SdNotifyWatchdog)
		}
		if err != nil && ctx.Err() == nil {
			log.Error("the watchdog is not assured: systemd will restart the daemon", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// reloadSignals returns a channel of the SIGHUPs sent to this process from now on. They no longer end the
// process, as they would by default. One that arrives while the daemon starts is kept until it has
// started; one that arrives while it stops is lost.
func reloadSignals() <-chan os.Signal {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// onReload calls reload for every signal until ctx ends. If reload fails, the daemon keeps its
// configuration.
func onReload(ctx context.Context, signals <-chan os.Signal, reload func() error, log *slog.Logger) {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		if err := report(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec()); err != nil {
			log.Warn(err.Error())
		}
		status := "serving, configuration reloaded"
		if err := reload(); err != nil {
			log.Error("the configuration was not reloaded; everything is as it was", "error", err)
			status = "serving, with the configuration from before: the reload was refused, see the log"
		} else {
			log.Info("configuration reloaded")
		}
		if err := tellReady(status); err != nil {
			log.Warn(err.Error())
		}
	}
}
