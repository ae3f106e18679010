package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jomei/notionapi"

	"dibs/internal/notion/transport/transporttest"
)

// script answers one request after another and notes the bodies that arrive.
type script struct {
	t       *testing.T
	answers []*http.Response

	mu     sync.Mutex
	bodies []string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body := transporttest.Body(s.t, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	if len(s.bodies) > len(s.answers) {
		return nil, fmt.Errorf("request %d was not expected", len(s.bodies))
	}
	if answer := s.answers[len(s.bodies)-1]; answer != nil {
		return answer, nil
	}
	return nil, errors.New("the connection was cut")
}

func TestRetry(t *testing.T) {
	const body = `{"page_size":100}`
	blocked := transporttest.Failure("rate_limited", "no", map[string]any{"rate_limit_reason": reasonBlocked})
	for _, tc := range []struct {
		name    string
		method  string
		path    string
		answers []*http.Response // nil cuts the connection
		sent    int
		status  int           // of the error, 0 for success
		waits   time.Duration // between the tries, on average
	}{
		{"query", "POST", transporttest.QueryPath, []*http.Response{transporttest.Reply(502, "<html>"), nil, transporttest.Reply(429, ""), transporttest.Reply(200, "{}")}, 4, 0, 1500 * time.Millisecond},
		{"page", "GET", transporttest.PagePath, []*http.Response{transporttest.Reply(529, ""), transporttest.Reply(500, ""), transporttest.Reply(504, ""), transporttest.Reply(200, "{}")}, 4, 0, 3 * time.Second},
		{"given up", "GET", transporttest.PagePath, []*http.Response{transporttest.Reply(503, ""), transporttest.Reply(503, ""), transporttest.Reply(503, ""), transporttest.Reply(503, "")}, 4, 503, 3500 * time.Millisecond},
		{"not found", "GET", transporttest.PagePath, []*http.Response{transporttest.Reply(404, "")}, 1, 404, 0},
		{"blocked", "GET", transporttest.PagePath, []*http.Response{transporttest.Reply(429, blocked)}, 1, 429, 0},
		{"update", "PATCH", transporttest.PagePath, []*http.Response{transporttest.Reply(503, "")}, 1, 503, 0},
		{"limited update", "PATCH", transporttest.PagePath, []*http.Response{transporttest.Reply(429, "")}, 1, 429, 0},
		{"create", "POST", "/v1/pages", []*http.Response{transporttest.Reply(502, "")}, 1, 502, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &script{t: t, answers: tc.answers}
				chain := &retry{next: &typed{next: server}, base: 500 * time.Millisecond, jitter: halfway}
				sends := ""
				if tc.method != http.MethodGet {
					sends = body
				}
				start := time.Now()
				_, err := chain.RoundTrip(transporttest.Request(t, t.Context(), tc.method, tc.path, sends))
				status := 0
				if answered, ok := errors.AsType[*APIError](err); ok {
					status = answered.Status
				} else if err != nil {
					t.Fatal(err)
				}
				if status != tc.status {
					t.Errorf("err = %v, want status %d", err, tc.status)
				}
				var want []string
				for range tc.sent {
					want = append(want, sends)
				}
				if diff := cmp.Diff(want, server.bodies); diff != "" {
					t.Errorf("bodies sent: -want +got\n%s", diff)
				}
				// Waits of half a second, one and two; but none after a rate limit, where
				// the pause decides how long it is.
				if took := time.Since(start); took != tc.waits {
					t.Errorf("took %s, want %s", took, tc.waits)
				}
			})
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{t: t, answers: []*http.Response{transporttest.Reply(502, ""), transporttest.Reply(502, ""), transporttest.Reply(502, "")}}
		chain := &retry{next: &typed{next: server}, base: time.Second, jitter: halfway}
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		_, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, ""))
		answered, isAnswered := errors.AsType[*APIError](err)
		if !isAnswered || answered.Status != 502 {
			t.Errorf("err = %v, want the 502", err)
		}
		if len(server.bodies) != 1 {
			t.Errorf("sent %d times, want once: there was no time for another", len(server.bodies))
		}
	})
}

// The library resends a body that the transport has consumed: over HTTP/2 an
// empty one arrives. Ours arrives whole, and the library does not notice.
func TestRetriedBodyIsWholeOverHTTP2(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, fmt.Sprint(r.Proto, " ", strings.TrimSpace(transporttest.Body(t, r))))
		switch len(bodies) {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			fmt.Fprint(w, `{"object":"list","results":[],"has_more":false,"next_cursor":null}`)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	base, err := parseBaseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Without the wait between tries, and without the pause: these need a clock.
	chain := &retry{next: &typed{next: &baseURL{
		next: &send{next: server.Client().Transport, timeout: time.Minute, limit: answerLimit}, base: base,
	}}}
	api := notionapi.NewClient("token", notionapi.WithHTTPClient(&http.Client{Transport: chain}), notionapi.WithRetry(1))
	_, err = api.Database.Query(t.Context(), "2f835e81-2bbb-81b6-9700-e18108a40b1f", &notionapi.DatabaseQueryRequest{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`HTTP/2.0 {"page_size":100}`, `HTTP/2.0 {"page_size":100}`, `HTTP/2.0 {"page_size":100}`}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
