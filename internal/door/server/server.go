// Package server answers HTTP on the daemon's socket. It translates between package api and a
// Broker, identifies the calling user, and makes requests with an idempotency key repeatable. Every
// failure is a problem document with a code.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/door/access"
	"dibs/internal/kit/keylock"
	"dibs/internal/kit/ratelimit"
	"dibs/internal/outbox"
)

// Options configure a server. The fields up to Version are required.
type Options struct {
	Broker  Broker
	Journal Journal
	Log     *slog.Logger
	Version string // the program's, for the API's description
	// Machines, if set, knows the processes of other members' machines.
	Machines *Machines
	// Access, if set, admits callers from other machines.
	Access Access
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

// Access says who callers from other machines are. It is access.Tokens.
type Access interface {
	// Admit checks an access token. The error is an *api.Problem.
	Admit(ctx context.Context, bearer string) (access.Pass, error)
}

// Server answers requests until it is shut down.
type Server struct {
	broker   Broker
	journal  Journal
	log      *slog.Logger
	machines *Machines
	access   Access
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
	return ended(s.scrapes.Serve(strangers(&s.scrapes, l, nil, s.log)))
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

// problem converts an error for the caller.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cutOff(ctx)
	}
	if _, ok := errors.AsType[*claim.JournalError](err); ok {
		select {
		case <-s.journal.Over():
			return stopping()
		default:
		}
	}
	if p := s.broker.Problem(err); p != nil {
		return p
	}
	if errors.Is(err, errStopping) || errors.Is(err, broker.ErrStopping) || errors.Is(err, claim.ErrStopped) {
		return stopping()
	}
	s.log.Error("a request failed", claim.AttrError, err)
	return api.NewProblem(api.CodeInternal, api.Saying(err))
}

// flights are the idempotency keys, with their users, of the requests in progress.
type flights struct {
	locks keylock.Locks[string]
	first sync.Map // by key, a *flying: the request that has its lock, or waits for it first
}

// flying is a request in progress.
type flying struct {
	fingerprint string
	// heard ends once the journal keeps the request waiting: its caller was told, see prompt.
	heard  context.Context
	silent context.CancelFunc
}

// flight returns the key of a user's request in flights.
func flight(uid int, key string) string { return fmt.Sprint(uid, " ", key) }

// enter waits until no other request with this key is in progress, and returns the function that
// lets the next one in, and a context for the request. It refuses a request with another fingerprint at
// once. If that comes just as one leaves, it waits, and Keys refuses it. It does not wait for a request
// that the journal keeps waiting.
func (f *flights) enter(ctx context.Context, key, fingerprint string) (leave func(), patient context.Context, err error) {
	own := &flying{fingerprint: fingerprint}
	own.heard, own.silent = context.WithCancel(context.Background())
	found, busy := f.first.LoadOrStore(key, own)
	ahead := found.(*flying)
	if ahead.fingerprint != fingerprint {
		return nil, nil, outbox.ErrReused
	}
	wait, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if busy {
		defer context.AfterFunc(ahead.heard, func() { giveUp(errSilent) })()
	}
	unlock, err := f.locks.Lock(wait, key)
	if err != nil {
		if !busy {
			f.first.Delete(key)
		}
		return nil, nil, context.Cause(wait)
	}
	f.first.Store(key, own) // again: the one before has deleted it
	return func() {
		f.first.Delete(key)
		unlock()
	}, claim.Patience(ctx, own.silent), nil
}
