package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
)

// SendError is the error of a request without a readable answer: it was not sent, the answer
// did not come, or it made no sense.
type SendError struct {
	Method string
	// Server is the host that was asked, if known.
	Server string
	Path   string
	// Landed says whether a write took effect all the same. It means nothing for a read.
	Landed claim.Landed
	// RetryAfter is how long to wait before a retry; zero if that is not known.
	RetryAfter time.Duration
	Err        error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("%s %s%s: %v", e.Method, e.Server, e.Path, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

func (e *SendError) retryAfter() time.Duration { return e.RetryAfter }

// Unsent returns the error of a request that was not sent.
func Unsent(req *http.Request, err error) *SendError {
	return &SendError{Method: req.Method, Path: req.URL.Path, Landed: claim.LandedNo, RetryAfter: RetryAfter(err), Err: err}
}

// Unread returns the error of a request whose answer was good but cannot be read.
func Unread(req *http.Request, err error) *SendError {
	return &SendError{Method: req.Method, Path: req.URL.Path, Landed: claim.LandedUnknown, Err: err}
}

// typed passes good answers on, and turns all others into an *APIError or a *SendError.
type typed struct {
	next   http.RoundTripper
	server string // the host that is asked
}

func (t *typed) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := context.Cause(req.Context()); err != nil {
		closeBody(req)
		return nil, Unsent(req, err)
	}
	ctx, fate := traced(req.Context())
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, &SendError{Method: req.Method, Server: t.server, Path: req.URL.Path, Landed: fate.landed(), Err: err}
	}
	body, err := Body(resp)
	if err != nil {
		return nil, Unread(req, err)
	}
	if resp.StatusCode != http.StatusOK || !json.Valid(body) {
		failed := newAPIError(req, resp, body)
		failed.Server = t.server
		return nil, failed
	}
	return WithBody(resp, body), nil
}

// fate records how far a request gets.
type fate struct{ asked, connected atomic.Bool }

func traced(ctx context.Context) (context.Context, *fate) {
	f := new(fate)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { f.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { f.connected.Store(true) },
	}), f
}

// landed returns whether the write of a failed request may have landed. It cannot have if there
// never was a connection. If the transport does not report connections, the fate is unknown.
func (f *fate) landed() claim.Landed {
	if f.asked.Load() && !f.connected.Load() {
		return claim.LandedNo
	}
	return claim.LandedUnknown
}
