package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

const (
	// doorPatience is how long a door tries to reach a leader.
	doorPatience = 10 * time.Second
	// doorAgain is how often it tries, even if nothing has changed.
	doorAgain = 250 * time.Millisecond
	// doorGlance is how long a door waits for a leader's answer to a question about the cluster.
	doorGlance = 2 * time.Second
	// doorIdle is how many idle connections to the leader a door keeps.
	doorIdle = 64
)

// guestHeader is the header in which a door names the caller, as the JSON of a Guest. It is
// believed from members only, see Peers.
const guestHeader = "Dibs-Guest"

// Way is the way to the leader.
type Way struct {
	// Leader is its name; empty while nobody leads.
	Leader string
	// Epoch is the leader's epoch.
	Epoch int64
	// Dial connects to it.
	Dial func(context.Context) (net.Conn, error)
	// Changed is closed when another member leads, or when the answer becomes known or unknown.
	Changed <-chan struct{}
	// Why says, in one line, which member leads by the last information, and since when, or why
	// that is unknown.
	Why string
	// Lost is set if nobody can lead at present.
	Lost bool
}

// Doorway tells a door who leads and who the members are.
type Doorway interface {
	Way() Way
	// Members returns the daemons that share the journal.
	Members(context.Context) (api.Cluster, error)
}

// Door forwards a member's requests to the leader, which may be the member itself. While the lead
// changes, a request waits and is then sent again, under its own key or one that the door gives it.
type Door struct {
	way   Doorway
	proxy httputil.ReverseProxy
	local http.Handler

	mu     sync.Mutex
	to     Way
	until  context.Context // ends when another member leads
	leave  context.CancelCauseFunc
	routes http.RoundTripper
}

// errOtherLeader ends requests to a former leader.
var errOtherLeader = errors.New("another member leads now")

// NewDoor makes a door.
func NewDoor(way Doorway, log *slog.Logger) *Door {
	d := &Door{way: way}
	d.proxy = httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "dibs", "dibs"
		},
		Transport:     d,
		FlushInterval: -1, // streams must not be buffered
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if here, ok := r.Context().Value(onceKey{}).(instead); ok {
				here(w, err)
				return
			}
			writeProblem(w, d.problem(r.Context(), err))
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cluster", d.once(d.members))
	mux.HandleFunc("GET /v1/status", d.once(func(w http.ResponseWriter, r *http.Request, err error) {
		if _, known := errors.AsType[*unreachableError](err); !known {
			err = &unreachableError{d.way.Way().Why, err}
		}
		writeProblem(w, d.problem(r.Context(), err))
	}))
	mux.Handle("/", withBody(http.HandlerFunc(d.pass)))
	for _, path := range []string{hookPath, api.ProcessesPath} { // between members only, see Forward and Machines
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			writeProblem(w, api.NewProblem(api.CodeNoRoute, "there is no "+path+" here"))
		})
	}
	d.local = addressed(mux)
	return d
}

// ServeHTTP forwards a request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.local.ServeHTTP(w, r) }

// onceKey marks a request that does not wait for a leader. The value is what answers it without one.
type onceKey struct{}

// instead answers a request that the leader does not. err says why it does not.
type instead func(w http.ResponseWriter, err error)

// once asks the leader, which must answer soon, or else has this member answer what it can: a question
// about the cluster does not wait until the cluster is well.
func (d *Door) once(here func(http.ResponseWriter, *http.Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if guest(r.Context()).Remote { // only the leader knows whether it may hear that
			d.pass(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), doorGlance)
		defer cancel()
		d.pass(w, r.WithContext(context.WithValue(ctx, onceKey{}, instead(func(w http.ResponseWriter, err error) { here(w, r, err) }))))
	}
}

// members answers with the members, whom this one knows, too.
func (d *Door) members(w http.ResponseWriter, r *http.Request, _ error) {
	all, err := d.way.Members(r.Context())
	if err != nil {
		writeProblem(w, d.problem(r.Context(), err))
		return
	}
	writeJSON(w, http.StatusOK, all)
}

func (d *Door) pass(w http.ResponseWriter, r *http.Request) {
	who, err := json.Marshal(guest(r.Context()))
	if err != nil {
		panic(err) // texts and numbers only
	}
	r.Header.Set(guestHeader, string(who))
	if r.Method == http.MethodPost && r.Header.Get(api.KeyHeader) == "" {
		r.Header.Set(api.KeyHeader, api.NewKey())
	}
	answer := &observedWriter{ResponseWriter: w, connection: http.NewResponseController(w)}
	answer.connection.SetWriteDeadline(time.Time{}) // the previous request's
	d.proxy.ServeHTTP(answer, r)
}

// unreachableError says that no leader could be reached.
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

// problem is the answer to a request that could not be forwarded.
func (d *Door) problem(ctx context.Context, err error) *api.Problem {
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		return api.NewProblem(api.CodeStopping, errStopping.Error())
	}
	p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), api.Saying(err))
	if guest(ctx).Remote {
		p.Detail = "no daemon leads at the moment: ask again"
	}
	p.RetryIn(doorRetry)
	return p
}

// RoundTrip sends a request to the leader.
func (d *Door) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	var giveUp <-chan time.Time // set by the first failure
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

// route returns the way to the leader, a context that ends when another member leads, and the
// connections to it.
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

// send sends a request, and aborts it when until ends.
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

// brokenOff is an answer's body, which ends with the leader's epoch.
type brokenOff struct {
	io.ReadCloser
	end func()
}

func (b *brokenOff) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// Peers accepts the other members: doors, which forward requests, and the leader, which asks about
// processes of this machine.
type Peers struct {
	http   http.Server
	member Member
	log    *slog.Logger
	inside *Pipe
}

// Member is this member of the cluster, as Peers needs it.
type Member interface {
	// Secure returns a listener that lets only connections of members of another one through.
	Secure(net.Listener) net.Listener

	// Who returns the name of the member that made a connection; nil stands for one of Dial.
	Who(*tls.ConnectionState) (name string, err error)

	// Leading returns the handler while this member leads; nil while it does not.
	Leading() http.Handler

	// Hooks returns what takes webhooks while this member leads; nil while it does not.
	Hooks() http.Handler

	Way() Way
}

// NewPeers returns a Peers for this member.
func NewPeers(member Member, log *slog.Logger) *Peers {
	mux := http.NewServeMux()
	mux.Handle("POST "+api.ProcessesPath, withBody(http.HandlerFunc(processes)))
	standby := func(w http.ResponseWriter) {
		w.Header().Set(standbyHeader, "1")
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), member.Way().Why)
		p.RetryIn(doorRetry)
		writeProblem(w, p)
	}
	mux.HandleFunc("POST "+hookPath, func(w http.ResponseWriter, r *http.Request) {
		if hooks := member.Hooks(); hooks != nil {
			hooks.ServeHTTP(w, r)
			return
		}
		standby(w)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		leading := member.Leading()
		if leading == nil {
			standby(w)
			return
		}
		who, err := member.Who(r.TLS)
		var g Guest
		if err == nil {
			err = json.Unmarshal([]byte(r.Header.Get(guestHeader)), &g)
		}
		if err != nil {
			writeProblem(w, api.NewProblem(api.CodeInvalidRequest, fmt.Sprintf("who asks is not known: %v", err)))
			return
		}
		g.Member = who
		leading.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
	})
	p := &Peers{plain(mux, log), member, log, NewPipe()}
	p.http.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateActive { // a member's, or it would not have come through Secure
			owes(c, false)
		}
	}
	p.http.MaxHeaderBytes += maxHeader                                  // for the door's header
	p.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // failed handshakes of strangers
	return p
}

// Serve answers members on a listener that anybody may be able to reach, and connections of Dial,
// until Shutdown. It closes the listener. At the limit, as with strangers, the connection that has
// owed its first request longest gives way.
func (p *Peers) Serve(l net.Listener) error {
	go p.http.Serve(p.inside)
	limited := limit(l, maxPeers, p.log, nil)
	limited.yields = true
	return ended(p.http.Serve(p.member.Secure(limited)))
}

// Dial connects within this process, without TLS: for a door whose own member leads.
func (p *Peers) Dial(ctx context.Context) (net.Conn, error) { return p.inside.Dial(ctx) }

// Shutdown accepts no more connections, and waits for the requests in progress until ctx ends. Then
// it aborts the rest.
func (p *Peers) Shutdown(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return p.http.Close()
	}
	return nil
}

// hookPath is where members pass webhooks on to the leader. Callers of a socket cannot reach it.
const hookPath = "/webhook"

// Forward passes a webhook on to the leader. While none leads, it is answered at once: Notion sends
// it again.
func (d *Door) Forward(w http.ResponseWriter, r *http.Request) {
	away := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.ToLower(http.StatusText(http.StatusServiceUnavailable)), http.StatusServiceUnavailable)
	})
	d.pass(w, r.WithContext(context.WithValue(r.Context(), onceKey{}, away)))
}
