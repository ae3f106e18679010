package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/door/access"
	"dibs/internal/door/mcp"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/mirror/webhook"
)

// Daemon is one running daemon.
type Daemon struct {
	*process
	shared *shared                // nil with a journal of its own
	leader atomic.Pointer[leader] // nil while it stands by
}

// Start takes the socket and the state directory, which no other daemon may be using, checks the
// databases, and begins to read the tasks. If Notion cannot be reached, it continues with what an
// earlier run knew. With a shared journal it takes socket and directory and connects to the
// database; Run does the rest whenever this daemon leads. The caller must call Run or Close next.
// Errors are written for the person who starts the daemon.
func Start(ctx context.Context, o Options) (_ *Daemon, err error) {
	d := &Daemon{process: &process{
		version: o.Version, started: time.Now(), log: o.Log, logLevel: o.LogLevel,
		transport: o.Transport, outside: o.Outside, listen: o.Listener, reloading: make(chan struct{}, 1),
	}}
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
	if err := d.listenForRemote(ctx, o); err != nil {
		return nil, err
	}
	if len(o.Config.Agents) == 0 && openToOthers(d.listen.Addr()) {
		d.log.Warn("other users of this machine can open the socket, and claim under any name: list agents, with their uids")
	}
	if o.Config.Journal.Shared() {
		d.shared, err = d.share(ctx, o.Network, d.handlers)
		return d, err
	}
	l, err := begin(ctx, d.process, nil, func(ctx context.Context) (*journal.Journal, error) {
		return journal.Open(ctx, filepath.Join(o.Config.StateDir, journal.FileName))
	})
	if err != nil {
		return nil, err
	}
	d.leader.Store(l)
	return d, nil
}

// Run serves agents until ctx ends. Then it takes no new requests, finishes those it is serving,
// and delivers what it owes to Notion, as far as drainTime allows. It returns nil after an orderly
// stop.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	defer d.serveHooks()()
	defer d.serveRemote()()
	if d.shared != nil {
		return d.takeTurns(ctx)
	}
	return d.leader.Load().run(ctx, d.listen, nil)
}

func (d *Daemon) closeListener() error { return closeOnce(d.listen) }

// Addr is the address on which the daemon listens.
func (d *Daemon) Addr() net.Addr { return d.listen.Addr() }

// Close releases what Start took, in reverse order. Run calls it when it ends.
func (d *Daemon) Close() error {
	var err error
	if l := d.leader.Load(); l != nil {
		err = l.cleanup.run()
	}
	return errors.Join(err, d.cleanup.run())
}

// takeTurns answers callers and members until ctx ends; meanwhile it stands by and leads in turn.
// It returns nil after an orderly stop.
func (d *Daemon) takeTurns(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	there, leave := context.WithCancel(context.WithoutCancel(ctx)) // outlasts ctx, for an orderly stop
	var serving sync.WaitGroup
	serving.Go(func() { d.shared.member.Run(there) })
	serving.Go(func() {
		if err := d.shared.front.Serve(d.listen); err != nil {
			fail(fmt.Errorf("the socket failed: %w: start dibs serve again", err))
		}
	})
	serving.Go(func() {
		if err := d.shared.peers.Serve(d.shared.listen); err != nil {
			fail(fmt.Errorf("other members cannot come in any more: %w: start dibs serve again", err))
		}
	})
	err := d.turns(ctx)
	stopping, cancel := context.WithTimeout(there, doorDrain)
	defer cancel()
	// Requests handed to the leader are answered while other members can still connect.
	d.shared.front.Shutdown(stopping)
	d.shared.peers.Shutdown(stopping)
	leave()
	serving.Wait()
	return err
}

// turns runs one turn after another. If the journal fails at the start of a term and may recover by
// itself, this daemon becomes a door again, so that another can lead. Any other failure ends it.
func (d *Daemon) turns(ctx context.Context) error {
	for deposed := false; ; deposed = true {
		err := d.turn(ctx, deposed)
		if errors.Is(err, journal.ErrDeposed) && ctx.Err() == nil {
			continue
		}
		passes := journal.Passing(err)
		if u, ok := errors.AsType[*unbegun](err); ok {
			passes = u.passes
		}
		if passes && ctx.Err() == nil {
			d.log.Warn("this daemon could have led, and stands by again", claim.AttrError, err)
			continue
		}
		if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) && (err == nil || errors.Is(err, cause) || errors.Is(err, journal.ErrDeposed)) {
			return nil
		}
		return err
	}
}

// turn stands by until the daemon leads, and then leads until ctx or its term ends.
func (d *Daemon) turn(ctx context.Context, deposed bool) error {
	term, err := d.shared.member.Lead(ctx, deposed)
	if err != nil {
		return err
	}
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx)) // outlasts ctx, too
	defer stopRenewing()
	keeping.Go(func() { term.Keep(renewing) })
	keeping.Go(func() {
		<-term.Over()
		stop(journal.ErrDeposed)
	})
	l, err := begin(leading, d.process, d.shared, term.Open)
	if err == nil {
		d.log.Info("this daemon leads", claim.AttrEvent, claim.EventLeadership, "epoch", term.Epoch())
		d.leader.Store(l)
		err = l.run(ctx, nil, term.Over())
		d.leader.Store(nil)
		err = errors.Join(err, l.cleanup.run())
	}
	select {
	case <-term.Over():
		if err != nil {
			d.log.Debug("the end of a term", claim.AttrError, err)
		}
		return journal.ErrDeposed
	default:
	}
	stopRenewing()
	if rerr := term.Resign(context.WithoutCancel(ctx)); rerr != nil {
		d.log.Warn("another daemon leads only once the term of this one is over", claim.AttrError, rerr)
	}
	return err
}

// serveHooks takes webhooks until stop is called: the leader's receiver gets them.
func (d *Daemon) serveHooks() (stop func()) {
	if d.hookListen == nil {
		return func() {}
	}
	var to http.HandlerFunc
	if d.shared != nil {
		to = d.shared.door.Forward
	} else {
		to = d.leader.Load().hooks.receiver.ServeHTTP
	}
	h := server.NewWebhooks(d.live.Load().Webhook.Path, to, d.log, webhook.SignatureHeader)
	d.hooksIn = h
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := h.Serve(d.hookListen); err != nil {
			d.log.Error("webhooks are not heard any more: their listener failed; syncs go on; restart the daemon", claim.AttrError, err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), doorDrain)
		defer cancel()
		h.Shutdown(ctx)
		<-over
	}
}

// serveRemote answers agents on other machines until stop is called.
func (d *Daemon) serveRemote() (stop func()) {
	if d.remoteListen == nil {
		return func() {}
	}
	var to http.Handler
	var stored func(ctx context.Context, key string) (string, error)
	if d.shared != nil {
		to, stored = d.shared.door, d.shared.database.Meta
	} else {
		l := d.leader.Load()
		to, stored = l.server, l.journal.Meta
	}
	certificate := access.Own(stored)
	if c := d.live.Load().Remote; c.CertFile != "" {
		certificate, _ = access.FromFiles(c.CertFile, c.KeyFile) // it was there when the daemon started
	}
	var remote *server.Remote
	sessions := mcp.NewHTTP(context.Background(), mcp.HTTPOptions{
		Dial: func(ctx context.Context) (net.Conn, error) { return remote.Dial(ctx) },
		Caller: func(r *http.Request) (token string, uid int, names string) {
			c := server.CallerOf(r)
			return c.Token, c.UID, c.Access.Agent
		},
		Version: d.version, Log: d.log,
	})
	remote = server.NewRemote(to, server.RemoteOptions{Certificate: certificate.Get, MCP: sessions, Log: d.log})
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := remote.Serve(d.remoteListen); err != nil {
			d.log.Error("agents on other machines are not heard any more: their listener failed; restart the daemon", claim.AttrError, err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), doorDrain)
		defer cancel()
		sessions.Close()
		remote.Shutdown(ctx)
		<-over
	}
}

// Alive returns an error if the journal cannot be read before ctx ends: without it the daemon can
// do nothing.
func (d *Daemon) Alive(ctx context.Context) error {
	l := d.leader.Load()
	if l == nil {
		return nil // it stands by
	}
	_, err := mirror.Schema(ctx, l.journal)
	return err
}

// handlers returns what answers agents and webhooks while this daemon leads, else nil.
func (d *Daemon) handlers() (agents, webhooks http.Handler) {
	if l := d.leader.Load(); l != nil {
		return l.server, l.hooks.receiver
	}
	return nil, nil
}
