package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/peer"
)

const (
	// maxHook is the largest body of a webhook that is taken, in bytes, and smallHook how much of
	// one is read for anybody. At most largeHooks larger ones are read at a time: who sends them is
	// known only once they are whole.
	maxHook    = 1 << 20
	smallHook  = 4 << 10
	largeHooks = 8
	// hookIdle is how long a connection may be silent between two posts.
	hookIdle = 15 * time.Second
)

// Webhooks accepts what Notion posts to an address that anybody may be able to reach. It answers
// nothing but POST on one path, and cuts off whoever is slow.
type Webhooks struct {
	http    http.Server
	path    string
	headers []string
	to      http.Handler
	large   chan struct{} // has a value for each large body that is being read
	log     *slog.Logger

	mu      sync.Mutex
	refused *api.RefusedHook // the last one; it is never changed
	warned  time.Time        // when one was last logged
}

// shownPath is how much of a stranger's path is shown, in bytes.
const shownPath = 100

// Refused returns the last request that was refused; nil for none, and for a nil Webhooks. What
// strangers look for at other paths, without a post, does not count. It is safe for concurrent use.
func (h *Webhooks) Refused() *api.RefusedHook {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// refuse records that a request was refused. It logs one in warnEvery.
func (h *Webhooks) refuse(r *http.Request, status int) {
	if r.Method != http.MethodPost && r.URL.Path != h.path {
		return
	}
	shown := r.URL.EscapedPath() // which has nothing that a terminal obeys, and no query
	if len(shown) > shownPath {
		shown = shown[:shownPath] + "…"
	}
	now := &api.RefusedHook{At: api.Time{Time: time.Now()}, Request: r.Method + " " + shown, Reason: fmt.Sprintf("it was answered %d %s", status, http.StatusText(status))}
	switch status {
	case http.StatusNotFound:
		now.Reason = fmt.Sprintf("only %s is answered: have the proxy pass that path on, or set webhook.path to the one that comes", h.path)
	case http.StatusMethodNotAllowed:
		now.Request, now.Reason = "a request to "+shown, "it is no POST: a redirect on the way, such as from http to https, makes a post something else"
	case http.StatusUnauthorized:
		now.Reason = "it is signed, or brings a token, otherwise than the first token demands: dibs webhook --renew forgets that"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = now
	if h.warned.IsZero() || time.Since(h.warned) >= warnEvery {
		h.warned = time.Now()
		h.log.Warn("a request to the webhook's address was refused", "request", now.Request, "reason", now.Reason)
	}
}

// failing is a ResponseWriter that remembers the status of an error.
type failing struct {
	http.ResponseWriter
	failed int
}

func (a *failing) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.failed = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *failing) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// NewWebhooks returns a Webhooks that gives every request of good form to a handler, with its whole
// body, and of its header only those that are named.
func NewWebhooks(path string, to http.Handler, log *slog.Logger, headers ...string) *Webhooks {
	h := &Webhooks{path: path, headers: headers, to: to, large: make(chan struct{}, largeHooks), log: log}
	h.http = plain(h, log)
	h.http.ReadTimeout, h.http.WriteTimeout, h.http.IdleTimeout = headerTimeout+bodyTimeout, writeTimeout, hookIdle
	h.http.DisableGeneralOptionsHandler = true
	// Strangers' broken connections are no news.
	h.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return h
}

// ServeHTTP answers a post from outside.
func (h *Webhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	status := http.StatusNotFound
	switch {
	case r.URL.Path != h.path:
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		status = http.StatusMethodNotAllowed
	default:
		body, status = h.read(w, r)
	}
	if status != 0 {
		w.Header().Set("Connection", "close") // nothing more is read
		http.Error(w, http.StatusText(status), status)
		h.refuse(r, status)
		return
	}
	whole(r)
	nobody := context.WithValue(r.Context(), guestKey{}, Guest{Peer: peer.Unknown})
	in, err := http.NewRequestWithContext(nobody, http.MethodPost, hookPath, bytes.NewReader(body))
	if err != nil {
		panic(err) // constants only
	}
	in.Header.Set("Content-Type", "application/json")
	for _, name := range h.headers {
		in.Header.Set(name, r.Header.Get(name))
	}
	given := &failing{ResponseWriter: w}
	if h.to.ServeHTTP(given, in); given.failed != 0 {
		h.refuse(r, given.failed)
	}
}

// read reads a body. status is the answer if it cannot be taken; zero if it can.
func (h *Webhooks) read(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	if r.ContentLength > maxHook {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, http.StatusInternalServerError
	}
	var all bytes.Buffer
	n, err := io.CopyN(&all, r.Body, smallHook)
	if err == nil {
		select {
		case h.large <- struct{}{}:
			defer func() { <-h.large }()
		default:
			w.Header().Set("Retry-After", "1")
			return nil, http.StatusServiceUnavailable
		}
		n, err = io.CopyN(&all, r.Body, maxHook+1-smallHook)
		n += smallHook
	}
	switch {
	case n > maxHook:
		return nil, http.StatusRequestEntityTooLarge
	case err != io.EOF:
		return nil, http.StatusRequestTimeout
	}
	return all.Bytes(), 0
}

// Serve answers on a listener until Shutdown. It closes the listener. That strangers are turned away
// because they are too many is not logged: they would fill the log.
func (h *Webhooks) Serve(l net.Listener) error {
	return ended(h.http.Serve(strangers(&h.http, l, nil, slog.New(slog.DiscardHandler))))
}

// Shutdown accepts no more posts, and waits for those in progress until ctx ends. Then it aborts the
// rest: Notion sends them again.
func (h *Webhooks) Shutdown(ctx context.Context) {
	if h.http.Shutdown(ctx) != nil {
		h.http.Close()
	}
}
