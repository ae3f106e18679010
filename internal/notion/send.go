package notion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerLimit is the size above which an answer is not believed. A hundred rows,
// each with every text as long as Notion lets it be, stay below.
const answerLimit = 64 << 20

// headerLimit is the same for the header of an answer, which net/http would
// otherwise take ten megabytes of.
const headerLimit = 256 << 10

// errNoAnswer is behind the error of a request that used up its time limit.
var errNoAnswer = errors.New("no answer")

// send makes one request and reads the whole answer, within the time limit.
type send struct {
	next    http.RoundTripper
	timeout time.Duration
	limit   int64 // on the size of the answer, in bytes
}

func (s *send) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), s.timeout)
	defer cancel()
	resp, err := s.exchange(req.WithContext(ctx))
	if err != nil && ctx.Err() != nil && req.Context().Err() == nil {
		return nil, fmt.Errorf("%w within %s", errNoAnswer, s.timeout)
	}
	return resp, err
}

func (s *send) exchange(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, s.limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer broke off: %w", err)
	case int64(len(body)) > s.limit:
		return nil, fmt.Errorf("the answer is longer than %d bytes", s.limit)
	}
	return withBody(resp, body), nil
}

// withBody returns resp with another body.
func withBody(resp *http.Response, body []byte) *http.Response {
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	return resp
}

// closeBody does what a RoundTripper owes a request that it does not pass on.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// newTransport returns a transport that notices a dead connection, as after the
// machine was suspended, sooner than by requests that time out one after another.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 10
	t.MaxResponseHeaderBytes = headerLimit
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return t
}
