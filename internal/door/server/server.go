// Package server answers HTTP on the daemon's socket. It translates between package api and a
// Broker, identifies the calling user, and makes requests with an idempotency key repeatable. Every
// failure is a problem document with a code.
package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"dibs/internal/kit/ratelimit"
)

const (
	maxBody       = 64 << 10
	maxAdded      = 512 << 10 // of a request for a new task, with its content
	maxMistake    = 1 << 20   // how much is read beyond maxBody
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout limits how long a caller takes to read each piece of an answer.
	writeTimeout = 30 * time.Second
	// flushTimeout is for answering the requests that a shutdown cut off.
	flushTimeout = time.Second
)

// Options configure a server. The fields up to Version are required.
type Options struct {
	Broker  Broker
	Journal Journal
	Log     *slog.Logger
	Version string // the program's, for the API's description
	// Machines, if set, knows the processes of other members' machines.
	Machines *Machines
	// Metrics, if set, answers GET /metrics, and counts answers.
	Metrics Metrics
}

// Metrics collects measurements.
type Metrics interface {
	// Handler answers GET /metrics.
	Handler() http.Handler

	// Answered counts an answer. The route is the pattern that the request matched, empty if
	// it matched none.
	Answered(route string, status int)
}

// Server answers requests until it is shut down.
type Server struct {
	broker   Broker
	journal  Journal
	log      *slog.Logger
	machines *Machines
	flights  flights
	quota    *ratelimit.Allowance // see quotaBurst
	handler  http.Handler
	front    *Front      // unused if another front calls ServeHTTP
	scrapes  http.Server // see ServeMetrics

	// base is cancelled by stop, and cancels the requests in progress.
	base     context.Context
	stop     context.CancelCauseFunc
	mu       sync.Mutex
	stopping bool
	requests sync.WaitGroup
	idle     chan struct{} // closed when all are done
}

var errStopping = errors.New("the daemon is stopping: ask again once it runs")

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		broker:   o.Broker,
		journal:  o.Journal,
		log:      o.Log,
		machines: cmp.Or(o.Machines, NewMachines("", nil)),
		idle:     make(chan struct{}),
		quota:    ratelimit.New(quotaBurst, quotaEvery),
	}
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.handler = s.layers(o)
	s.front = NewFront(s, FrontOptions{Log: o.Log})
	s.scrapes = plain(addressed(onlyMetrics(o.Metrics)), o.Log)
	s.scrapes.ReadTimeout, s.scrapes.WriteTimeout = bodyTimeout, writeTimeout
	return s
}

// SetListed is Front.SetListed.
func (s *Server) SetListed(uids []int) { s.front.SetListed(uids) }

// Serve answers requests on the listener until Shutdown. It closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.front.Serve(l) }

// serving is the key of the server in the context of a request that it answers.
type serving struct{}

// ServeHTTP answers a request from a Front, or from another member's door.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), serving{}, s))
	defer cancel(nil)
	defer context.AfterFunc(s.base, func() { cancel(context.Cause(s.base)) })()
	if !s.takes() {
		cancel(errStopping)
		writeProblem(w, s.problem(ctx, errStopping))
		return
	}
	defer s.requests.Done()
	s.handler.ServeHTTP(w, r.WithContext(ctx))
}

// takes counts a request in progress, unless the server is stopping.
func (s *Server) takes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.requests.Add(1)
	}
	return !s.stopping
}

// ServeMetrics answers only GET /metrics on the listener, until Shutdown. It closes the listener.
// It is for listeners that anybody on this machine can reach.
func (s *Server) ServeMetrics(l net.Listener) error {
	return strangers(&s.scrapes, l, s.log)
}

// Shutdown accepts no more requests, and waits for those in progress until ctx ends. It then
// answers the rest with a problem.
func (s *Server) Shutdown(ctx context.Context) error {
	s.scrapes.Close()
	s.mu.Lock()
	if !s.stopping {
		s.stopping = true
		go func() {
			s.requests.Wait()
			close(s.idle)
		}()
	}
	s.mu.Unlock()
	err := s.front.Shutdown(ctx)
	if err == nil {
		err = s.wait(ctx)
	}
	s.stop(errStopping)
	if err != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		s.wait(flush)
	}
	return err
}

// wait waits until no request is in progress, or ctx ends.
func (s *Server) wait(ctx context.Context) error {
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
