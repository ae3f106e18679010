package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

const (
	// doorPatience is for how long a door tries to find somebody who leads.
	doorPatience = 10 * time.Second
	// doorAgain is when it tries again if nothing has changed.
	doorAgain = 250 * time.Millisecond
	// doorRetry is when to ask a door again that found nobody.
	doorRetry = 2 * time.Second
	// doorIdle is how many connections to the leader a door keeps for the next request.
	doorIdle = 64
)

// guestHeader is where a door says who asks, as the JSON of a Guest. It counts from members
// only, see Peers.
const guestHeader = "Dibs-Guest"

// standbyHeader marks the answer of a member that does not lead, or leads no more: it is for
// another one to answer, who knows by the key what was done already.
const standbyHeader = "Dibs-Standby"

// Way is the way to the leader.
type Way struct {
	// Leader is what it is called; empty while nobody leads.
	Leader string
	// Epoch counts the leaders.
	Epoch int64
	// Dial calls it.
	Dial func(context.Context) (net.Conn, error)
	// Changed is closed once another leads, or whether that can be known changes.
	Changed <-chan struct{}
	// Why says, in one line, who is said to lead, and since when; or why that is not known.
	Why string
	// Lost is set if nobody can lead at present.
	Lost bool
}

// Doorway is what a door has to know.
type Doorway interface {
	Way() Way
	// Members returns the daemons that share the journal.
	Members(context.Context) (api.Cluster, error)
}

// Door hands what is asked of a member to the one that leads, which may be itself. While another
// takes the lead, a request waits, and is sent again: under its key, or one that the door gives
// it.
type Door struct {
	way   Doorway
	proxy httputil.ReverseProxy
	local http.Handler

	mu     sync.Mutex
	to     Way
	until  context.Context // ends when another leads
	leave  context.CancelCauseFunc
	routes http.RoundTripper
}

// errOtherLeader is why what was asked of a former leader is broken off.
var errOtherLeader = errors.New("another member leads now")

// NewDoor makes a door.
func NewDoor(way Doorway, log *slog.Logger) *Door {
	d := &Door{way: way}
	d.proxy = httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "dibs", "dibs"
		},
		Transport:     d,
		FlushInterval: -1, // of streams, each piece counts
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if here, ok := r.Context().Value(onceKey{}).(http.HandlerFunc); ok {
				here(w, r)
				return
			}
			writeProblem(w, d.problem(r.Context(), err))
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cluster", d.once)
	mux.Handle("/", withBody(http.HandlerFunc(d.pass)))
	d.local = addressed(mux)
	return d
}

// ServeHTTP hands a request on.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.local.ServeHTTP(w, r) }

// onceKey marks a request that waits for nobody to lead: its value answers it here then.
type onceKey struct{}

// once has the leader say who the members are, or else this one: every member knows them.
func (d *Door) once(w http.ResponseWriter, r *http.Request) {
	d.pass(w, r.WithContext(context.WithValue(r.Context(), onceKey{}, http.HandlerFunc(d.members))))
}

func (d *Door) members(w http.ResponseWriter, r *http.Request) {
	all, err := d.way.Members(r.Context())
	if err != nil {
		writeProblem(w, d.problem(r.Context(), err))
		return
	}
	writeJSON(w, http.StatusOK, all)
}

func (d *Door) pass(w http.ResponseWriter, r *http.Request) {
	said, err := json.Marshal(guest(r.Context()))
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	r.Header.Set(guestHeader, string(said))
	if r.Method == http.MethodPost && r.Header.Get(api.KeyHeader) == "" {
		r.Header.Set(api.KeyHeader, api.NewKey())
	}
	answer := &observedWriter{ResponseWriter: w, connection: http.NewResponseController(w)}
	answer.connection.SetWriteDeadline(time.Time{}) // of the request before it
	d.proxy.ServeHTTP(answer, r)
}

// unreachableError says that nobody who leads could be asked.
type unreachableError struct {
	why string
	err error
}

func (e *unreachableError) Error() string {
	if e.err == nil {
		return e.why
	}
	return fmt.Sprintf("%s, and cannot be asked from here: %v", e.why, e.err)
}

func (e *unreachableError) Unwrap() error { return e.err }

// problem says what a request that could not be handed on is answered.
func (d *Door) problem(ctx context.Context, err error) *api.Problem {
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		return api.NewProblem(api.CodeStopping, errStopping.Error())
	}
	p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), api.Saying(err))
	p.RetryIn(doorRetry)
	return p
}

// RoundTrip has whoever leads answer a request.
func (d *Door) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	var giveUp <-chan time.Time // from the first time that it went wrong
	for {
		way, until, routes := d.route()
		var failed error
		if way.Leader != "" {
			answer, err := send(r, body, until, routes)
			if err == nil && answer.Header.Get(standbyHeader) == "" {
				return answer, nil
			}
			if failed = err; err == nil {
				answer.Body.Close()
			}
			if cause := context.Cause(r.Context()); cause != nil {
				return nil, cause
			}
		}
		if way.Lost || r.Context().Value(onceKey{}) != nil {
			return nil, &unreachableError{way.Why, failed}
		}
		if giveUp == nil {
			giveUp = time.After(doorPatience)
		}
		again := time.NewTimer(doorAgain)
		select {
		case <-way.Changed:
		case <-again.C:
		case <-giveUp:
			return nil, &unreachableError{d.way.Way().Why, failed}
		case <-r.Context().Done():
			again.Stop()
			return nil, context.Cause(r.Context())
		}
		again.Stop()
	}
}

// route returns the way to the leader, and what ends once another leads.
func (d *Door) route() (Way, context.Context, http.RoundTripper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	way := d.way.Way()
	if d.until == nil || way.Leader != d.to.Leader || way.Epoch != d.to.Epoch {
		if d.until != nil {
			d.leave(errOtherLeader)
		}
		d.until, d.leave = context.WithCancelCause(context.Background())
		d.routes = &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return way.Dial(ctx) },
			MaxIdleConnsPerHost: doorIdle, IdleConnTimeout: idleTimeout, DisableCompression: true,
		}
	}
	d.to = way
	return way, d.until, d.routes
}

// send sends a request, and breaks it off once until ends.
func send(r *http.Request, body []byte, until context.Context, routes http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(until, func() { cancel(context.Cause(until)) })
	end := func() { stop(); cancel(nil) }
	out := r.Clone(ctx)
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer, err := routes.RoundTrip(out)
	if err != nil {
		end()
		return nil, err
	}
	answer.Body = &brokenOff{answer.Body, end}
	return answer, nil
}

// brokenOff is the body of an answer that ends with the leader's term.
type brokenOff struct {
	io.ReadCloser
	end func()
}

func (b *brokenOff) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
