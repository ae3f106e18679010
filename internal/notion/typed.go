package notion

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
)

// SendError is a request that has no answer: it was not sent, or the answer did
// not come.
type SendError struct {
	Method string
	Path   string
	// Landed says whether a write took effect all the same. Of a read it says nothing.
	Landed claim.Landed
	// RetryAfter is how long to wait before trying again; zero if that is not known.
	RetryAfter time.Duration
	Err        error
}

func (e *SendError) Error() string { return fmt.Sprintf("%s %s: %v", e.Method, e.Path, e.Err) }

func (e *SendError) Unwrap() error { return e.Err }

// unsent is the error of a request that was held back.
func unsent(req *http.Request, err error) *SendError {
	return &SendError{Method: req.Method, Path: req.URL.Path, Landed: claim.LandedNo, Err: err}
}

// typed passes good answers on and turns everything else into an *APIError or a
// *SendError. The library would lose most of what an error says.
type typed struct{ next http.RoundTripper }

func (t *typed) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := context.Cause(req.Context()); err != nil {
		closeBody(req)
		return nil, unsent(req, err)
	}
	ctx, fate := traced(req.Context())
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, &SendError{Method: req.Method, Path: req.URL.Path, Landed: fate.landed(), Err: err}
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, &SendError{Method: req.Method, Path: req.URL.Path, Err: err}
	}
	// The library takes no other status for success either.
	if resp.StatusCode != http.StatusOK || !json.Valid(body) {
		return nil, newAPIError(req, resp, body)
	}
	return withBody(resp, body), nil
}

// fate follows how far a request gets.
type fate struct{ asked, connected atomic.Bool }

func traced(ctx context.Context) (context.Context, *fate) {
	f := new(fate)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { f.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { f.connected.Store(true) },
	}), f
}

// landed is what can be said of a write whose request failed: it cannot have
// landed if a connection was asked for and never came. A transport that does not
// say what it does leaves it open.
func (f *fate) landed() claim.Landed {
	if f.asked.Load() && !f.connected.Load() {
		return claim.LandedNo
	}
	return claim.LandedUnknown
}
