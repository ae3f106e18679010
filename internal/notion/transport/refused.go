package transport

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dibs/internal/claim"
)

// silentAfter is how long no line follows one about the same refusal. The daemon asks again with
// every sync, and each answer would have a line.
const silentAfter = time.Hour

// refusals logs what Notion refuses: what it has understood, and would refuse again.
type refusals struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[Count]*refusal // by endpoint and status; the N of a key is zero
}

// refusal is one that was logged.
type refusal struct {
	at    time.Time // when
	since int       // how many like it came since
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, said: make(map[Count]*refusal)}
}

// Refused reports whether Notion would answer the same request the same way again. It is false for
// what passes: pauses, conflicts, and requests that took too long.
func (e *APIError) Refused() bool {
	switch {
	case e.Status == http.StatusConflict, e.Status == http.StatusRequestTimeout, e.RateLimited(), e.Blocked():
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// note logs an answer, unless one like it was logged lately. The next line has how many there were.
func (r *refusals) note(kind string, e *APIError) {
	if !e.Refused() {
		return
	}
	key, now := Count{Endpoint: kind, Status: e.Status}, time.Now()
	r.mu.Lock()
	known := r.said[key]
	if known == nil {
		known = new(refusal)
		r.said[key] = known
	}
	known.since++
	count := known.since
	again := known.at.IsZero() || now.Sub(known.at) >= silentAfter
	if again {
		known.at, known.since = now, 0
	}
	r.mu.Unlock()
	if again {
		r.log.Info("Notion refused a request", claim.AttrEvent, claim.EventNotionRefused, claim.AttrRequest, kind,
			claim.AttrStatus, e.Status, claim.AttrCode, e.Code, claim.AttrCount, count, claim.AttrReason, e.Message)
	}
}
