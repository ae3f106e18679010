package cli

// How the daemon and the manager that runs it talk: sockets that systemd opened for it, what it
// tells systemd of its state, and the signal to read the configuration again. Under another
// manager, or none, there is nothing to take over and nobody to tell.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// passedListener returns the unix socket that systemd opened for the daemon, or nil if
// it opened none. Of anything else that it passed on it complains: somebody wants
// the daemon to listen where it does not.
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

// tellReady tells systemd that the daemon serves, and what its status line says.
func tellReady(status string) error { return notify(systemd.SdNotifyReady + "\nSTATUS=" + status) }

// tellStopping tells systemd that the daemon is about to end.
func tellStopping() error { return notify(systemd.SdNotifyStopping) }

func notify(state string) error {
	if _, err := systemd.SdNotify(false, state); err != nil {
		return fmt.Errorf("systemd could not be told of the daemon's state: %w", err)
	}
	return nil
}

// assureAlive assures systemd, as often as its watchdog wants, that the daemon is
// alive, as long as it is, until ctx ends. Without a watchdog it returns at once.
// A daemon that is not alive gets restarted by systemd.
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
			err = notify(systemd.SdNotifyWatchdog)
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

// reloadSignals returns where each SIGHUP arrives that somebody sends from now on. None
// of them ends the process any more, as it would by default: one that comes while
// the daemon starts waits until it has, and one that comes while it stops is lost.
func reloadSignals() <-chan os.Signal {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// onReload calls reload for every signal until ctx ends. A reload that fails
// leaves everything as it was.
func onReload(ctx context.Context, signals <-chan os.Signal, reload func() error, log *slog.Logger) {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		if err := notify(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec()); err != nil {
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
