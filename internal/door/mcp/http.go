package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/kit/clock"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxOfCaller and maxSessions limit the sessions of one caller, and of all.
	maxOfCaller = 64
	maxSessions = 512
	// idle is how long a session is kept without a request; longer while the lease of a claim goes on.
	idle = time.Hour
	// bodyTimeout is how long a client may take to send a request.
	bodyTimeout = 10 * time.Second
	// sweepInterval is how often idle sessions are looked for.
	sweepInterval = time.Minute

	sessionHeader = "Mcp-Session-Id"
	// requestHeader names an open request to the tools, whatever its client sent.
	requestHeader = "Dibs-Mcp-Request"
)

// HTTPOptions configure an HTTP.
type HTTPOptions struct {
	// Dial connects to the daemon, in plain HTTP, as the caller whose bearer token a request shows.
	Dial func(context.Context) (net.Conn, error)
	// Caller returns the bearer token of a request, who shows it, and the pattern of the names under
	// which that caller may act, see task.Covers. uid is the same for all tokens of one caller.
	Caller  func(*http.Request) (token string, uid int, names string)
	Version string
	Log     *slog.Logger
}

// HTTP serves clients that speak the protocol's streamable HTTP. Its caller has authenticated the
// requests. Each session has a bridge of its own, and belongs to the caller that began it. Each of its
// requests renews its claims, also while it is open. A DELETE ends the session, and gives back what was
// claimed in it. A session that is idle ends when no lease of its claims goes on any more.
type HTTP struct {
	options    HTTPOptions
	nobody     http.Handler // refuses what names no session
	over       context.Context
	end        context.CancelFunc
	background sync.WaitGroup

	mu       sync.Mutex // guards all below, and the sessions' fields that say so
	closed   bool
	sessions map[string]*hosted
}

// hosted is a session of a client over HTTP.
type hosted struct {
	uid     int
	bridge  *Bridge
	handler http.Handler
	exact   exact
	token   atomic.Pointer[string] // the newest that the client has shown
	asking  sync.Map               // the *answers of open requests, by the value of requestHeader
	// late ends when what is still under way at the end of the session is cut off.
	late context.Context
	cut  context.CancelFunc

	requests sync.WaitGroup
	open     int       // requests; guarded by HTTP.mu
	used     time.Time // when the last one ended; guarded by HTTP.mu
}

// NewHTTP returns a handler that ends idle sessions until ctx ends. The caller must Close it.
func NewHTTP(ctx context.Context, o HTTPOptions) *HTTP {
	h := &HTTP{options: o, sessions: make(map[string]*hosted)}
	h.nobody = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return nil }, h.settings())
	h.over, h.end = context.WithCancel(ctx)
	h.background.Go(func() {
		clock.NewLoop(sweepInterval, func(context.Context) time.Duration {
			h.sweep()
			return sweepInterval
		}).Run(h.over)
	})
	return h
}

// settings are those of the SDK's handlers. A proxy on this machine may pass on another Host: a page
// in a browser that was led here by its name has no token.
func (h *HTTP) settings() *sdk.StreamableHTTPOptions {
	return &sdk.StreamableHTTPOptions{DisableLocalhostProtection: true, MaxRequestBodyBytes: maxLine}
}

// Close ends all sessions, and waits for that. It gives no claim back: their agents go on once there is
// a daemon again, in another session.
func (h *HTTP) Close() {
	h.mu.Lock()
	h.closed = true
	for id, s := range h.sessions {
		delete(h.sessions, id)
		h.background.Go(func() { s.finish(false) })
	}
	h.mu.Unlock()
	h.end()
	h.background.Wait()
}

func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, uid, names := h.options.Caller(r)
	id := r.Header.Get(sessionHeader)
	if id == "" && r.Method != http.MethodPost {
		h.nobody.ServeHTTP(w, r)
		return
	}
	// It is read before it counts as open. Streams have no limit of time.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, fmt.Sprintf("want a request of %d bytes at most", maxLine), http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		http.Error(w, fmt.Sprintf("the request could not be read: %v", err), http.StatusBadRequest)
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	var s *hosted
	if id == "" {
		id = rand.Text()
		s = h.begin(id, uid, names)
		if status, why := h.admit(id, s); status != 0 {
			s.finish(false)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(status)
			w.Write(refusal(nil, -32000, why))
			return
		}
	} else if s = h.find(id, uid, r.Method == http.MethodDelete); s == nil {
		http.Error(w, "there is no such session, or no more: initialize another", http.StatusNotFound)
		return
	}
	s.token.Store(&token)
	if r.Method == http.MethodDelete {
		s.finish(true)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	defer h.leave(id, s)
	s.serve(w, r, body)
}

// begin returns a new session.
func (h *HTTP) begin(id string, uid int, names string) *hosted {
	s := &hosted{uid: uid, exact: newExact()}
	ctx := context.WithoutCancel(h.over) // at its end, calls still have time
	s.late, s.cut = context.WithCancel(ctx)
	o := Options{Hosted: id, Version: h.options.Version, Log: h.options.Log, Daemon: func() (*client.Client, error) {
		daemon := client.Over("dibs", h.options.Dial)
		daemon.Bearer(func(context.Context) (string, error) { return *s.token.Load(), nil })
		return daemon, nil
	}}
	if strings.Contains(names, "*") {
		o.Session = func(thread string) string { return cmp.Or(thread, id) }
	} else {
		o.Agent = names
	}
	s.bridge = New(ctx, o)
	s.bridge.server.AddReceivingMiddleware(s.whileOpen)
	s.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.bridge.server }, h.settings())
	return s
}

// admit lets a new session in, with its first request. At the limit of its caller, it ends the one that
// was idle for longest and has no claims. Else it returns a status, and why there is no room.
func (h *HTTP) admit(id string, s *hosted) (status int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return http.StatusServiceUnavailable, "the daemon stops: try again in a minute"
	}
	own, oldest := 0, ""
	for id, other := range h.sessions {
		if other.uid != s.uid {
			continue
		}
		own++
		if other.open == 0 && (oldest == "" || other.used.Before(h.sessions[oldest].used)) && !other.leased() {
			oldest = id
		}
	}
	switch {
	case own < maxOfCaller && len(h.sessions) < maxSessions:
	case oldest != "":
		h.drop(oldest)
	case own >= maxOfCaller:
		return http.StatusTooManyRequests, fmt.Sprintf("this token has %d MCP sessions, as many as it may, and all hold claims or are at work: end one with DELETE", own)
	default:
		return http.StatusServiceUnavailable, fmt.Sprintf("there are %d MCP sessions, as many as the daemon has room for: try again in a minute", len(h.sessions))
	}
	h.sessions[id] = s
	s.enter()
	return 0, ""
}

// find returns a caller's session, and nil if it has none of that id. If it is to end, nobody finds it
// any more; else one of its requests is open from now on.
func (h *HTTP) find(id string, uid int, ends bool) *hosted {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	switch {
	case s == nil || s.uid != uid:
		return nil
	case ends:
		delete(h.sessions, id)
	default:
		s.enter()
	}
	return s
}

// enter counts a request; HTTP.mu is locked.
func (s *hosted) enter() {
	s.open++
	s.requests.Add(1)
}

// leave ends a request, and with it a session that the SDK did not begin.
func (h *HTTP) leave(id string, s *hosted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer s.requests.Done()
	s.open--
	s.used = time.Now()
	for range s.bridge.server.Sessions() {
		return
	}
	if s.open == 0 && h.sessions[id] == s {
		h.drop(id)
	}
}

// sweep ends the sessions that were idle for too long.
func (h *HTTP) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.sessions {
		if s.open == 0 && time.Since(s.used) >= idle && !s.leased() {
			h.drop(id)
		}
	}
}

// drop ends a session in which no lease goes on; mu is locked.
func (h *HTTP) drop(id string) {
	s := h.sessions[id]
	delete(h.sessions, id)
	h.background.Go(func() { s.finish(false) })
}

// leased reports whether the lease of a claim goes on that the session knows of.
func (s *hosted) leased() bool {
	now := time.Now()
	for _, c := range s.bridge.known(false) {
		if now.Before(c.ExpiresAt.Time) {
			return true
		}
	}
	return false
}

// finish ends a session that nobody finds any more. What was claimed in it is given back, or else kept
// until its lease ends.
func (s *hosted) finish(givesBack bool) {
	late := time.AfterFunc(linger, s.cut)
	s.bridge.end() // which ends what waits
	for range 2 {  // the first request may have begun it meanwhile
		for session := range s.bridge.server.Sessions() {
			session.Close()
		}
		s.requests.Wait()
	}
	late.Stop()
	s.cut()
	s.bridge.Close()
	if givesBack {
		for _, c := range s.bridge.known(true) {
			s.bridge.giveBack(c, "the MCP session ended", false)
		}
	}
}

// serve serves a request of the session, other than its end.
func (s *hosted) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, done := context.WithCancel(r.Context())
	defer done()
	defer context.AfterFunc(s.late, func() {
		done()
		http.NewResponseController(w).SetWriteDeadline(time.Now()) // it may wait for a client that does not read
	})()
	s.bridge.touch()
	key, out := rand.Text(), &answers{ResponseWriter: w, exact: s.exact, open: ctx}
	s.asking.Store(key, out)
	defer s.asking.Delete(key)
	defer out.end(done)
	r = r.Clone(ctx)
	r.Header.Set(requestHeader, key)
	r.Body = io.NopCloser(bytes.NewReader(s.exact.hide(body)))
	s.handler.ServeHTTP(out, r)
}

// whileOpen ends a call when its request is over: nobody could be told of a claim that it makes. The
// SDK would let it go on. Until then it renews the claims.
func (s *hosted) whileOpen(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if extra := req.GetExtra(); extra != nil {
			if out, ok := s.asking.Load(extra.Header.Get(requestHeader)); ok {
				out := out.(*answers)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(out.open, cancel)()
				s.bridge.background.Go(func() {
					for clock.Pause(ctx, refreshInterval) == nil {
						s.bridge.touch()
						out.wait()
					}
				})
				return next(ctx, method, req)
			}
		}
		return next(ctx, method, req)
	}
}

// answers passes the SDK's messages on as on stdout. The SDK writes each event at once.
type answers struct {
	http.ResponseWriter
	exact exact
	open  context.Context // until the request is over

	mu sync.Mutex // locked to write, and while open ends
}

// end ends open.
func (a *answers) end(done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done()
}

// wait writes a comment, lest the client or a proxy takes the connection for dead while a call waits.
func (a *answers) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open.Err() == nil {
		io.WriteString(a.ResponseWriter, ": still at it\n\n")
		http.NewResponseController(a.ResponseWriter).Flush()
	}
}

// FlushError is for http.ResponseController, too.
func (a *answers) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answers) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answers) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	frame, message, event := bytes.Cut(data, []byte("data: "))
	if event = event && bytes.HasPrefix(frame, []byte("event: ")); !event {
		frame, message = nil, data
	}
	if !bytes.HasPrefix(message, []byte("{")) {
		return a.ResponseWriter.Write(data) // a comment, or the text of a refusal
	}
	said, err := a.exact.said(bytes.TrimSpace(message))
	if event {
		said = slices.Concat(frame, []byte("data: "), said, []byte("\n\n"))
	}
	if err == nil {
		_, err = a.ResponseWriter.Write(said)
	}
	return len(data), err
}
