package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"dibs/internal/api/peer"
)

// maxHook is the largest body of a webhook that is taken, in bytes.
const maxHook = 1 << 20

// hookPath is where members pass webhooks on to the leader. Callers of the socket cannot reach it.
const hookPath = "/webhook"

// Webhooks accepts what Notion posts to an address that anybody may be able to reach. It answers
// nothing but POST on one path, and cuts off whoever is slow.
type Webhooks struct {
	http http.Server
	log  *slog.Logger
}

// NewWebhooks returns a Webhooks that gives every request of good form to a handler, with its whole
// body, and of its header only those that are named.
func NewWebhooks(path string, to http.Handler, log *slog.Logger, headers ...string) *Webhooks {
	if strings.HasSuffix(path, "/") {
		path += "{$}" // and nothing below it
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		body, status := hookBody(w, r)
		if status != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, http.StatusText(status), status)
			return
		}
		nobody := context.WithValue(r.Context(), guestKey{}, Guest{Peer: peer.Unknown})
		in, err := http.NewRequestWithContext(nobody, http.MethodPost, hookPath, bytes.NewReader(body))
		if err != nil {
			panic(err) // constants only
		}
		in.Header.Set("Content-Type", "application/json")
		for _, name := range headers {
			in.Header.Set(name, r.Header.Get(name))
		}
		to.ServeHTTP(w, in)
	})
	h := &Webhooks{http: plain(mux, log), log: log}
	h.http.WriteTimeout = writeTimeout
	// Strangers' broken connections are no news.
	h.http.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return h
}

// hookBody reads a body. status is the answer if it cannot be taken; zero if it can.
func hookBody(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	if r.ContentLength > maxHook {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, http.StatusInternalServerError
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, http.StatusRequestTimeout
	}
	return body, 0
}

// Serve answers on a listener until Shutdown. It closes the listener.
func (h *Webhooks) Serve(l net.Listener) error { return ended(h.http.Serve(limit(l, h.log, nil))) }

// Shutdown accepts no more posts, and waits for those in progress until ctx ends. Then it aborts the
// rest: Notion sends them again.
func (h *Webhooks) Shutdown(ctx context.Context) {
	if h.http.Shutdown(ctx) != nil {
		h.http.Close()
	}
}

// Forward passes a webhook on to the leader.
func (d *Door) Forward(w http.ResponseWriter, r *http.Request) { d.pass(w, r) }
