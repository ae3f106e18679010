package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

// Front accepts the callers of this machine. It identifies them, limits their number, and passes
// their requests to a handler.
type Front struct {
	http   http.Server
	log    *slog.Logger
	listed atomic.Pointer[[]int]
	// stop cancels the requests in progress.
	stop context.CancelCauseFunc
}

// FrontOptions configure a Front.
type FrontOptions struct {
	// Member is this member's name in a cluster; empty without one.
	Member string
	Log    *slog.Logger
}

// NewFront returns a front whose requests h answers.
func NewFront(h http.Handler, o FrontOptions) *Front {
	base, stop := context.WithCancelCause(context.Background())
	f := &Front{log: o.Log, http: plain(h, o.Log), stop: stop}
	f.SetListed(nil)
	f.http.BaseContext = func(net.Listener) context.Context { return base }
	f.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return welcome(ctx, c, o.Member) }
	return f
}

// SetListed sets the users that the configuration names, each once. Some connections are kept free
// for each. It may be called at any time.
func (f *Front) SetListed(uids []int) { f.listed.Store(&uids) }

// plain returns an HTTP server with the limits common to all servers here. It has no write timeout,
// because a request for a claim may wait for api.MaxWait; observedWriter limits each write instead.
func plain(h http.Handler, log *slog.Logger) http.Server {
	return http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve answers requests on the listener until Shutdown. It closes the listener.
func (f *Front) Serve(l net.Listener) error {
	return ended(f.http.Serve(limit(l, maxConns, f.log, &f.listed)))
}

// ended returns the error of a server, or nil if it was shut down.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown accepts no more callers, and waits for the requests in progress until ctx ends. It then
// answers the rest with a problem.
func (f *Front) Shutdown(ctx context.Context) error {
	err := f.http.Shutdown(ctx)
	f.stop(errStopping)
	if err == nil {
		return nil
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if f.http.Shutdown(flush) != nil {
		f.http.Close()
	}
	return err
}
