package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
)

// standByRetry is when to ask a daemon again that does not lead.
const standByRetry = 2 * time.Second

// Waiting is what a daemon can say that does not lead.
type Waiting interface {
	// Why says why it does not lead, in one line.
	Why() string
	// Members returns the daemons that it shares a journal with.
	Members(context.Context) (api.Cluster, error)
}

// StandBy answers requests on the listener, which it closes, until ctx ends: who the members
// are, and all others with why the daemon does not lead.
func StandBy(ctx context.Context, l net.Listener, log *slog.Logger, daemon Waiting) error {
	refuse := func(w http.ResponseWriter, why string) {
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), why)
		p.RetryIn(standByRetry)
		writeProblem(w, p)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, daemon.Why()) })
	mux.HandleFunc("GET /v1/cluster", func(w http.ResponseWriter, r *http.Request) {
		members, err := daemon.Members(r.Context())
		if err != nil {
			refuse(w, saying(err))
			return
		}
		writeJSON(w, http.StatusOK, members)
	})
	waiting := http.Server{
		Handler:           addressed(mux),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	// The connections go, too: what is asked next is for who leads.
	defer context.AfterFunc(ctx, func() { waiting.Close() })()
	if err := waiting.Serve(limit(l, log, nil)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
