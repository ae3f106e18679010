package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

// Front is where callers of this machine come in. It knows who each of them is, lets a limited
// number in, and has a handler answer them.
type Front struct {
	http   http.Server
	log    *slog.Logger
	listed atomic.Pointer[[]int]
	// stop ends the requests that are being worked on.
	stop context.CancelCauseFunc
}

// FrontOptions are what a Front is made of.
type FrontOptions struct {
	// Member is what the member of a cluster is called; empty without one.
	Member string
	Log    *slog.Logger
}

// NewFront makes a front.
func NewFront(h http.Handler, o FrontOptions) *Front {
	base, stop := context.WithCancelCause(context.Background())
	f := &Front{log: o.Log, http: plain(h, o.Log), stop: stop}
	f.SetListed(nil)
	f.http.BaseContext = func(net.Listener) context.Context { return base }
	f.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return welcome(ctx, c, o.Member) }
	return f
}

// SetListed changes which users the configuration names, each once. Some connections are kept back
// for each of them. It may be called at any time.
func (f *Front) SetListed(uids []int) { f.listed.Store(&uids) }

// plain is an HTTP server with the limits of all that are here. There is no write timeout,
// because a request for a claim may wait for api.MaxWait; observedWriter has one for what is
// written.
func plain(h http.Handler, log *slog.Logger) http.Server {
	return http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve answers requests on the listener, which it closes, until Shutdown.
func (f *Front) Serve(l net.Listener) error {
	return ended(f.http.Serve(limit(l, f.log, &f.listed)))
}

// ended is the error of a server that was not told to end.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown lets nobody in any more, and has those that are in answered until ctx ends. What is
// unanswered then is answered with a problem.
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
