package transport

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
)

// Stats counts what a transport has sent, and who waits to send.
type Stats struct {
	// Requests counts what was sent, by endpoint and status, in a fixed order.
	Requests []Count
	// Waiting counts the requests that wait for a permit, by lane.
	Waiting map[Lane]int
	// Permits is how many requests could be sent at once at this moment, and Burst the most
	// that ever can.
	Permits, Burst int
	// PausedUntil is the end of the last pause that Notion asked for, by this
	// machine's clock; zero if there was none.
	PausedUntil time.Time
}

// Count is how many requests to one endpoint got one status.
type Count struct {
	// Endpoint is the kind of request, such as "pages.update".
	Endpoint string
	// Status is the answer's status; zero if there was no answer.
	Status int
	N      int
}

// measured counts and logs requests.
type measured struct {
	next  http.RoundTripper
	meter *meter
}

func (m *measured) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := m.next.RoundTrip(req)
	kind, status := endpoint(req.Method, req.URL.Path), 0
	if err == nil {
		status = resp.StatusCode
	} else if answered, ok := errors.AsType[*APIError](err); ok {
		status = answered.Status
		m.meter.refusals.note(kind, answered)
	}
	m.meter.add(kind, status)
	if ctx := req.Context(); m.meter.log.Enabled(ctx, slog.LevelDebug) {
		m.meter.log.Debug("request", "method", req.Method, "path", req.URL.Path, claim.AttrStatus, status,
			"lane", laneOf(ctx), "took", time.Since(start), claim.AttrError, err)
	}
	return resp, err
}

// meter counts requests.
type meter struct {
	log      *slog.Logger
	refusals *refusals

	mu sync.Mutex
	n  map[Count]int // the N of a key is zero
}

func newMeter(log *slog.Logger) *meter {
	return &meter{log: log, refusals: newRefusals(log), n: make(map[Count]int)}
}

func (m *meter) add(endpoint string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n[Count{Endpoint: endpoint, Status: status}]++
}

func (m *meter) counts() []Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := make([]Count, 0, len(m.n))
	for c, n := range m.n {
		c.N = n
		counts = append(counts, c)
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Status, b.Status))
	})
	return counts
}

// endpoint names the kind of a request by its collection and action, as in "pages.update".
func endpoint(method, path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case len(parts) > 2: // databases/{id}/query, pages/{id}/properties/{id}
		return parts[0] + "." + parts[2]
	case method == http.MethodPost:
		return parts[0] + ".create"
	case method == http.MethodPatch:
		return parts[0] + ".update"
	case path == "/v1/users/me":
		return "users.me"
	case len(parts) == 1:
		return parts[0] + ".list"
	default:
		return parts[0] + ".get"
	}
}

// silentAfter is how long no line follows one about the same refusal. The daemon asks again with
// every sync, and each answer would have a line.
const silentAfter = time.Hour

// refusals logs what Notion refuses: what it has understood, and would refuse again.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[Count]*refusal // by endpoint and status; the N of a key is zero
}

// refusal is one that was logged.
type refusal struct {
	at    time.Time // when
	since int       // how many like it came since
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, logged: make(map[Count]*refusal)}
}

// note logs an answer, unless one like it was logged lately. The next line has how many there were.
func (r *refusals) note(kind string, e *APIError) {
	if !e.Refused() {
		return
	}
	key, now := Count{Endpoint: kind, Status: e.Status}, time.Now()
	r.mu.Lock()
	known := r.logged[key]
	if known == nil {
		known = new(refusal)
		r.logged[key] = known
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
