package notion

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
)

// script answers one request after another and notes the bodies that arrive.
type script struct {
	t       *testing.T
	answers []*http.Response

	mu     sync.Mutex
	bodies []string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body := bodyOf(s.t, req)
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
	blocked := apiError("rate_limited", "no", map[string]any{"rate_limit_reason": reasonBlocked})
	for _, tc := range []struct {
		name    string
		method  string
		path    string
		answers []*http.Response // nil cuts the connection
		sent    int
		status  int // of the error, 0 for success
	}{
		{"query", "POST", queryPath, []*http.Response{reply(502, "<html>"), nil, reply(429, ""), reply(200, "{}")}, 4, 0},
		{"page", "GET", pagePath, []*http.Response{reply(529, ""), reply(500, ""), reply(504, ""), reply(200, "{}")}, 4, 0},
		{"given up", "GET", pagePath, []*http.Response{reply(503, ""), reply(503, ""), reply(503, ""), reply(503, "")}, 4, 503},
		{"not found", "GET", pagePath, []*http.Response{reply(404, "")}, 1, 404},
		{"blocked", "GET", pagePath, []*http.Response{reply(429, blocked)}, 1, 429},
		{"update", "PATCH", pagePath, []*http.Response{reply(503, "")}, 1, 503},
		{"limited update", "PATCH", pagePath, []*http.Response{reply(429, "")}, 1, 429},
		{"create", "POST", "/v1/pages", []*http.Response{reply(502, "")}, 1, 502},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &script{t: t, answers: tc.answers}
				chain := &retry{next: &typed{next: server}, base: 500 * time.Millisecond}
				sends := ""
				if tc.method != http.MethodGet {
					sends = body
				}
				start := time.Now()
				_, err := chain.RoundTrip(request(t, t.Context(), tc.method, tc.path, sends))
				status := 0
				var answered *APIError
				if errors.As(err, &answered) {
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
				// Waits of half a second, one and two, each halved at least and at most half as long again.
				least := 250 * time.Millisecond * (1<<(tc.sent-1) - 1)
				if took := time.Since(start); took < least || took > 3*least {
					t.Errorf("took %s, want %s to %s", took, least, 3*least)
				}
			})
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{t: t, answers: []*http.Response{reply(502, ""), reply(502, ""), reply(502, "")}}
		chain := &retry{next: &typed{next: server}, base: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		_, err := chain.RoundTrip(request(t, ctx, http.MethodGet, pagePath, ""))
		var answered *APIError
		if !errors.As(err, &answered) || answered.Status != 502 {
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
		bodies = append(bodies, fmt.Sprint(r.Proto, " ", strings.TrimSpace(bodyOf(t, r))))
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
	chain := &repair{sources: new(sources), next: &retry{next: &typed{next: &baseURL{
		next: &send{next: server.Client().Transport, timeout: time.Minute, limit: answerLimit}, base: base,
	}}}}
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
