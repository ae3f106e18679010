// Package server answers HTTP on the daemon's socket. It translates between the
// language of package api and a Broker, knows which user calls, and gives a
// request that is repeated under an idempotency key the answer it had.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"dibs/internal/allowance"
)

const (
	maxBody       = 64 << 10
	maxAdded      = 512 << 10 // of a request that makes a task, with its content
	maxMistake    = 1 << 20   // how much is read of what is beyond maxBody
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout is how long a caller may take to read each piece of an answer.
	writeTimeout = 30 * time.Second
	// flushTimeout is for answers to requests that a shutdown cut off.
	flushTimeout = time.Second
)

// Options are what a server needs. All fields but the last five are required.
type Options struct {
	Broker  Broker
	Keys    Keys
	Log     *slog.Logger
	Version string // of the program, for the API's description
	// Elsewhere, if set, is what other members of a cluster know of requests.
	Elsewhere Elsewhere
	// Metrics, if set, answers GET /metrics.
	Metrics http.Handler
	// Answered, if set, is told of every answer. The route is the pattern that the
	// request matched, empty if it matched none.
	Answered func(route string, status int)
	// Away, if set, says since when the journal cannot be asked, by this machine's clock, and
	// why; nil if it can.
	Away func() (since time.Time, why error)
	// Listed, if set, returns the users that the configuration names, each once. Some
	// connections are kept back for each of them.
	Listed func() []int
}

// Server answers requests until it is shut down.
type Server struct {
	broker Broker
	keys   Keys
	// elsewhere is nil without a cluster.
	elsewhere Elsewhere
	log       *slog.Logger
	listed    func() []int
	away      func() (since time.Time, why error)
	flights   flights
	owing     *allowance.Allowance // see owing
	http      http.Server
	scrapes   http.Server // see ServeMetrics
	// stop ends the requests that are being worked on.
	stop context.CancelCauseFunc
}

var errStopping = errors.New("the daemon is stopping: ask again once it runs")

// New makes a server.
func New(o Options) *Server {
	s := &Server{
		broker:    o.Broker,
		keys:      o.Keys,
		elsewhere: o.Elsewhere,
		log:       o.Log,
		listed:    o.Listed,
		away:      o.Away,
		owing:     allowance.New(owingBurst, owingEvery),
	}
	base, stop := context.WithCancelCause(context.Background())
	s.stop = stop
	errorLog := slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)
	s.http = http.Server{
		Handler:           s.handler(o),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// There is no write timeout here, because a request for a claim may wait for
		// api.MaxWait; observedWriter has one for what is written.
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: withCaller,
		ErrorLog:    errorLog,
	}
	s.scrapes = http.Server{
		Handler:           addressed(onlyMetrics(o.Metrics)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog,
	}
	return s
}

// Serve answers requests on the listener, which it closes, until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(limit(l, s.log, s.listed)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeMetrics answers GET /metrics, and nothing else, on the listener, which it
// closes, until Shutdown. It is for listeners that anybody on this machine can
// reach.
func (s *Server) ServeMetrics(l net.Listener) error {
	if err := s.scrapes.Serve(limit(l, s.log, nil)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting requests and lets those that are being worked on
// finish until ctx ends. What is unanswered then is answered with a problem.
func (s *Server) Shutdown(ctx context.Context) error {
	s.scrapes.Close()
	err := s.http.Shutdown(ctx)
	s.stop(errStopping)
	if err == nil {
		return nil
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if s.http.Shutdown(flush) != nil {
		s.http.Close()
	}
	return err
}
