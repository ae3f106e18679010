// Package daemon assembles the parts and runs them: the journal, the Notion client, the claim
// protocol, the mirror, the logs, the schedule and the socket API. It wires and wakes, and decides
// nothing about claims. One daemon has a state directory and a socket to itself.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"dibs/config"
	"dibs/internal/cluster"
	"dibs/internal/door/server"
	"dibs/internal/journal"
)

// Options configures a daemon.
type Options struct {
	Config  config.Config
	Version string
	// Transport carries the requests to Notion; nil means the network.
	Transport http.RoundTripper
	// Outside carries notices to their receivers; nil means the network.
	Outside http.RoundTripper
	// Listener accepts agents' connections; nil means the configured socket.
	Listener net.Listener
	// Webhooks accepts what Notion posts; nil means webhook.listen, if set.
	Webhooks net.Listener
	// Network connects the members of a cluster; nil means the machine's network.
	Network cluster.Network
	Log     *slog.Logger
	// LogLevel, if set, is the level of Log. A reload changes it.
	LogLevel *slog.LevelVar
}

// Daemon is one running daemon. Its fields last as long as it runs, whether it leads or stands by.
type Daemon struct {
	version   string
	started   time.Time
	log       *slog.Logger
	logLevel  *slog.LevelVar
	transport http.RoundTripper
	outside   http.RoundTripper
	listen    net.Listener
	// hookListen is for webhooks; nil without webhook.listen.
	hookListen net.Listener
	hooksIn    *server.Webhooks // accepts on it, once this daemon runs

	reloading chan struct{} // a mutex for jobs and for a reload, which may send requests
	live      atomic.Pointer[config.Config]
	works     atomic.Pointer[works] // nil while it stands by

	shared  *shared // nil with a journal of its own
	cleanup cleanup
}

// cleanup is a stack of functions to run at the end, in reverse order.
type cleanup []func() error

func (c *cleanup) run() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}

// Start takes the socket and the state directory, which no other daemon may be using, checks the
// databases, and begins to read the tasks. If Notion cannot be reached, it continues with what an
// earlier run knew. With a shared journal it takes socket and directory and connects to the
// database; Run does the rest whenever this daemon leads. The caller must call Run or Close next.
// Errors are written for the person who starts the daemon.
func Start(ctx context.Context, o Options) (_ *Daemon, err error) {
	d := &Daemon{
		version: o.Version, started: time.Now(), log: o.Log, logLevel: o.LogLevel,
		transport: o.Transport, outside: o.Outside, listen: o.Listener, reloading: make(chan struct{}, 1),
	}
	d.live.Store(&o.Config)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()

	socket := o.Config.Socket
	if d.listen != nil {
		socket = d.listen.Addr().String()
	}
	unlock, err := lockState(o.Config.StateDir, socket)
	if err != nil {
		return nil, err
	}
	d.cleanup = append(d.cleanup, unlock)
	if d.listen == nil {
		if d.listen, err = server.Listen(o.Config.Socket, o.Config.SocketGroup); err != nil {
			return nil, err
		}
	}
	d.cleanup = append(d.cleanup, d.closeListener)
	if err := d.listenForHooks(ctx, o); err != nil {
		return nil, err
	}
	if len(o.Config.Agents) == 0 && openToOthers(d.listen.Addr()) {
		d.log.Warn("other users of this machine can open the socket, and claim under any name: list agents, with their uids")
	}
	if o.Config.Journal.Shared() {
		return d, d.share(ctx, o.Network)
	}
	w, err := d.begin(ctx, func(ctx context.Context) (*journal.Journal, error) {
		return journal.Open(ctx, filepath.Join(o.Config.StateDir, journal.FileName))
	})
	if err != nil {
		return nil, err
	}
	d.works.Store(w)
	return d, nil
}

// Run serves agents until ctx ends. Then it takes no new requests, finishes those it is serving,
// and delivers what it owes to Notion, as far as drainTime allows. It returns nil after an orderly
// stop.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	defer d.serveHooks()()
	if d.shared != nil {
		return d.takeTurns(ctx)
	}
	return d.works.Load().run(ctx, d.listen, nil)
}

// openToOthers reports whether users other than its owner can open a socket. They need write
// permission, which is set by whoever made the socket, systemd for instance.
func openToOthers(addr net.Addr) bool {
	path := addr.String()
	if strings.HasPrefix(path, "@") {
		return true // an abstract socket has no mode
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o022 != 0
}

func (d *Daemon) closeListener() error { return closeOnce(d.listen) }

// closeOnce closes a listener that may be closed already.
func closeOnce(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Addr is the address on which the daemon listens.
func (d *Daemon) Addr() net.Addr { return d.listen.Addr() }

// Close releases what Start took, in reverse order. Run calls it when it ends.
func (d *Daemon) Close() error {
	var err error
	if w := d.works.Load(); w != nil {
		err = w.cleanup.run()
	}
	return errors.Join(err, d.cleanup.run())
}
