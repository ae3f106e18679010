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

// StandBy answers all requests on the listener, which it closes, with why the daemon does not
// lead, until ctx ends.
func StandBy(ctx context.Context, l net.Listener, log *slog.Logger, why func() string) error {
	waiting := http.Server{
		Handler: addressed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), why())
			p.RetryIn(standByRetry)
			writeProblem(w, p)
		})),
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
