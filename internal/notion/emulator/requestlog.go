package emulator

import (
	"net/http"
	"slices"
	"time"
)

// Request is one request that reached the emulator.
type Request struct {
	Time     time.Time `json:"time"` // arrival, after the latency
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	RawQuery string    `json:"query,omitempty"`
	Version  string    `json:"version"` // the Notion-Version header
	Body     []byte    `json:"body,omitempty"`
	// Status is the answer's: 0 before it is sent, and if the connection was cut instead.
	Status int `json:"status"`
}

// arrived logs a request and returns its entry, to pass to answered.
func (e *Emulator) arrived(r *http.Request, body []byte) *Request {
	entry := &Request{
		Time: time.Now(), Method: r.Method, Path: r.URL.Path, RawQuery: r.URL.RawQuery,
		Version: r.Header.Get("Notion-Version"), Body: body,
	}
	if !e.knows(r) {
		entry.Body = nil // a body without the token is not kept
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, entry)
	return entry
}

func (e *Emulator) answered(entry *Request, a *answer) {
	e.mu.Lock()
	if !a.cut {
		entry.Status = a.status
	}
	line := *entry
	e.mu.Unlock()
	e.log.Info("request", "method", line.Method, "path", line.Path, "status", line.Status, "took", time.Since(line.Time))
}

// Requests returns the requests since the start or the last ResetRequests, in the order of their
// arrival.
func (e *Emulator) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Request, len(e.requests))
	for i, r := range e.requests {
		out[i] = *r
		out[i].Body = slices.Clone(r.Body)
	}
	return out
}

// ResetRequests forgets the requests so far.
func (e *Emulator) ResetRequests() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = nil
}
