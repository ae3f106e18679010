package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/kit/ratelimit"
	"dibs/internal/outbox"
)

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		broker:   o.Broker,
		journal:  o.Journal,
		log:      o.Log,
		access:   o.Access,
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

// layers builds the chain of handlers that a request passes.
func (s *Server) layers(o Options) http.Handler {
	mux := http.NewServeMux()
	routes(mux, o.Version)
	if o.Metrics != nil {
		mux.Handle(metricsRoute, o.Metrics.Handler())
	}
	return s.observed(o.Metrics, s.admitted(addressed(routed(mux, withBody(s.prompt(s.keyed(mux)))))))
}

const metricsRoute = "GET /metrics"

// onlyMetrics answers the metrics' route only.
func onlyMetrics(metrics Metrics) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		handler := metrics.Handler()
		mux.HandleFunc(metricsRoute, func(w http.ResponseWriter, r *http.Request) {
			whole(r)
			handler.ServeHTTP(w, r)
		})
	}
	return routed(mux, mux)
}

// observed logs requests, counts answers, and answers for handlers that panic.
func (s *Server) observed(metrics Metrics, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		r = withProcess(r)
		answer := &observedWriter{ResponseWriter: w, connection: http.NewResponseController(w)}
		answer.connection.SetWriteDeadline(time.Time{}) // the previous request's
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler {
					panic(cause)
				}
				p := s.panicked(r, cause)
				if answer.status != 0 {
					panic(http.ErrAbortHandler) // too late for another answer
				}
				writeProblem(answer, p)
			}
			if metrics != nil {
				metrics.Answered(r.Pattern, answer.status)
			}
			s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.Int("status", answer.status), slog.Int("uid", caller(r.Context())), slog.Duration("took", time.Since(start)))
		}()
		next.ServeHTTP(answer, r)
	})
}

// panicked logs a panic, and returns the answer to the request that caused it.
func (s *Server) panicked(r *http.Request, cause any) *api.Problem {
	s.log.Error("a request made the daemon panic: report this line", "method", r.Method, "path", r.URL.Path,
		"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return api.NewProblem(api.CodeInternal, "the daemon failed while it worked on this: its log says more")
}

// routed refuses requests for which the mux has no handler.
func routed(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fallback, pattern := mux.Handler(r)
		if pattern != "" {
			next.ServeHTTP(w, r)
			return
		}
		fallen := &discarded{header: make(http.Header)}
		fallback.ServeHTTP(fallen, r)
		if allowed := fallen.header.Get("Allow"); allowed != "" {
			w.Header().Set("Allow", allowed)
			writeProblem(w, api.NewProblem(api.CodeWrongMethod, fmt.Sprintf("%s does not answer %s: use %s", r.URL.Path, r.Method, allowed)))
			return
		}
		writeProblem(w, api.NewProblem(api.CodeNoRoute, fmt.Sprintf("there is no %s here: GET /openapi.json tells what there is", r.URL.Path)))
	})
}

// withBody reads the whole body before the handler runs, and makes it fit. The body must be JSON and
// not too large.
// The read deadline is removed afterwards: it would end a request that waits for a claim.
func withBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		connection := http.NewResponseController(w)
		if err := connection.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
			writeProblem(w, api.NewProblem(api.CodeInternal, fmt.Sprintf("a time limit for reading the body: %v", err)))
			return
		}
		most, operation := maxBody, api.OperationOf(r)
		if operation.Large {
			most = maxAdded
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
		if err != nil {
			writeProblem(w, api.NewProblem(api.CodeInvalidRequest, fmt.Sprintf("the body could not be read: %v", err)))
			return
		}
		if len(body) > most {
			// A caller that is still sending may miss the answer if the connection is closed, so
			// read as much as a mistake would send.
			io.CopyN(io.Discard, r.Body, maxMistake)
			writeProblem(w, api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the body has more than %d KiB", most>>10)))
			return
		}
		if err := connection.SetReadDeadline(time.Time{}); err != nil {
			writeProblem(w, api.NewProblem(api.CodeInternal, fmt.Sprintf("no time limit after reading the body: %v", err)))
			return
		}
		if len(body) > 0 {
			if p := requireJSON(r.Header.Get("Content-Type")); p != nil {
				writeProblem(w, p)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(operation.Fit(body)))
		next.ServeHTTP(w, r)
	})
}

// prompt answers 503 to a request that the journal keeps waiting for almost a second. What becomes of the request is
// found out behind its caller, who has gone as far as the handler knows: a claim that is granted after
// all is given back, and what has an idempotency key is answered when it comes again.
func (s *Server) prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.OperationOf(r).Sends != "" {
			s.promptStream(w, r, next)
			return
		}
		late := make(chan struct{})
		named := r.WithContext(claim.Patience(r.Context(), sync.OnceFunc(func() { close(late) })))
		answer := &recordedAnswer{ResponseWriter: &discarded{header: w.Header().Clone()}}
		done, told := make(chan struct{}), make(chan bool, 1)
		s.requests.Add(1) // one more than the caller's own, for Shutdown
		go func() {
			defer s.requests.Done()
			defer func() {
				if close(done); !<-told {
					s.unheard(named, answer.Answer)
				}
			}()
			defer func() {
				if cause := recover(); cause != nil {
					answer.Answer = outbox.Answer{}
					writeProblem(answer, s.panicked(named, cause))
				}
			}()
			next.ServeHTTP(answer, named)
		}()
		select {
		case <-done:
		case <-late:
		}
		select {
		case <-done: // in time after all
			told <- true
			r.Pattern = named.Pattern // which is what observed tells of
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Status)
			w.Write(answer.Body)
		default:
			told <- false
			writeProblem(w, silent("the journal has not answered for a second, and whether this was done is still being found out: look, or ask again, best with an idempotency key"))
		}
	})
}

// unheard gives a claim back whose grant nobody was told of, and nobody can ask for again.
func (s *Server) unheard(r *http.Request, a outbox.Answer) {
	var granted api.Claim
	if a.Status != http.StatusCreated || api.Outlives(r.Header.Get(api.KeyHeader)) || json.Unmarshal(a.Body, &granted) != nil || granted.State != claim.Held {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	back := api.On(string(granted.ID), "", api.StopRequest{Unheard: true, Reason: "the caller was not told that it was granted"})
	if _, err := s.broker.Release(ctx, s.caller(ctx), &back); err != nil {
		s.log.Warn("a claim whose grant nobody was told of could not be given back", claim.AttrClaim, granted.ID, claim.AttrError, err)
	}
}

// promptStream is prompt for a stream. A stream only reads, so its wait before the first byte is cut
// short. Once it has begun it may wait.
func (s *Server) promptStream(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx, giveUp := context.WithCancelCause(r.Context())
	defer giveUp(nil)
	answer := &begunWriter{ResponseWriter: w}
	named := r.WithContext(claim.Patience(ctx, func() {
		if !answer.begun.Load() {
			giveUp(errSilent)
		}
	}))
	defer func() { r.Pattern = named.Pattern }() // observed tells of it
	next.ServeHTTP(answer, named)
}

func requireJSON(contentType string) *api.Problem {
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && media == "application/json" {
		return nil
	}
	is := "without a Content-Type"
	if contentType != "" {
		is = "sent as " + contentType
	}
	return api.NewProblem(api.CodeWrongMediaType, fmt.Sprintf("the body is %s: send JSON, and say so with the header Content-Type: application/json", is))
}

// addressed refuses requests whose Host is neither this machine nor the daemon. This stops a
// browser that a hostile page sent here through a forwarded port: it names the page's host. A
// browser that asks for a change from a page of another origin is refused, too.
func addressed(next http.Handler) http.Handler {
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			writeProblem(w, api.NewProblem(api.CodeWrongHost, fmt.Sprintf("the request is for the host %.100q: ask for http://dibs or http://localhost", r.Host)))
			return
		}
		if origins.Check(r) != nil {
			writeProblem(w, api.NewProblem(api.CodeCrossOrigin, "a web page of another origin asks for a change: ask from a program that is not a browser"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a Host header can mean this daemon. HTTP/1.0 has none, so an empty one
// can.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	switch strings.ToLower(host) {
	case "", "dibs", "localhost":
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}
