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

	"dibs/internal/claim"
	"dibs/internal/notion/transport/transporttest"

	"github.com/google/go-cmp/cmp"
	"github.com/jomei/notionapi"
)

// limited answers the first request with a rate limit, then everything.
func limited(status int, body string, headers ...string) (transporttest.Server, func() []time.Time) {
	var mu sync.Mutex
	var sent []time.Time
	return func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if sent = append(sent, time.Now()); len(sent) == 1 {
			return transporttest.Reply(status, body, headers...), nil
		}
		return transporttest.Reply(200, "{}"), nil
	}, func() []time.Time { mu.Lock(); defer mu.Unlock(); return sent }
}

func TestRetryAfterPausesEverything(t *testing.T) {
	for _, status := range []int{429, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, sent := limited(status, "", "Retry-After", "90")
				p := paced(t, 3, 10, server)
				granted, err := p.permits.grant(t.Context(), 2)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")); err == nil {
					t.Fatal("no error from a limited request")
				}

				var group sync.WaitGroup
				for _, ctx := range []context.Context{t.Context(), InLane(t.Context(), LaneSync)} {
					group.Go(func() { // reads wait
						if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
							t.Errorf("a read: %v", err)
						}
					})
				}
				group.Go(func() { // and so does the entry of a log
					if _, err := p.RoundTrip(transporttest.Request(t, InLane(t.Context(), LaneLog), http.MethodPost, "/v1/pages", "{}")); err != nil {
						t.Errorf("a log entry: %v", err)
					}
				})
				for _, req := range []*http.Request{ // a write does not, nor what an agent waits for
					transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"),
					transporttest.Request(t, granted, http.MethodPatch, transporttest.PagePath, "{}"),
					transporttest.Request(t, granted, http.MethodGet, transporttest.PagePath, ""),
				} {
					_, err := p.RoundTrip(req)
					failed, isFailed := errors.AsType[*SendError](err)
					if !isFailed || failed.Landed != claim.LandedNo ||
						failed.RetryAfter < 90*time.Second || failed.RetryAfter > 99*time.Second {
						t.Errorf("%s: %v, want that it was not sent, and when to try again", req.Method, err)
					}
				}
				// Nor does what a person waits for.
				for _, ctx := range []context.Context{Impatient(t.Context()), WithoutPermits(granted), Patient(t.Context(), time.Minute)} {
					if _, err := p.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); !errors.Is(err, errHeldBack) {
						t.Errorf("a read of somebody who waits: %v", err)
					}
				}
				// Nor does what would be too late.
				soon, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := p.RoundTrip(transporttest.Request(t, soon, http.MethodGet, transporttest.PagePath, "")); !errors.Is(err, errHeldBack) {
					t.Errorf("a read without the time to wait: %v", err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("to be refused took %s", took)
				}
				group.Wait()
				times := sent()
				if len(times) != 4 {
					t.Errorf("%d requests were sent, want 4", len(times))
				}
				for _, at := range times[1:] {
					if waited := at.Sub(start); waited < 90*time.Second || waited > 99*time.Second {
						t.Errorf("sent after %s, want 90s or a little more", waited)
					}
				}
			})
		})
	}
}

// Those who are waiting when a pause begins are treated like those who come later.
func TestPauseReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paced(t, 3, 10, fine)
		drain(t, p, 10)
		var group sync.WaitGroup
		start := time.Now()
		group.Go(func() {
			_, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
			if !errors.Is(err, errHeldBack) || time.Since(start) != 0 {
				t.Errorf("a write: %v after %s", err, time.Since(start))
			}
		})
		group.Go(func() {
			_, err := p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			if err != nil || time.Since(start) < time.Minute {
				t.Errorf("a read: %v after %s", err, time.Since(start))
			}
		})
		synctest.Wait()
		p.permits.pause(time.Minute)
		group.Wait()
	})
}

// A read that is sent again takes its permit anew together with the one that its
// write will need.
func TestRetriedReadKeepsThePermitOfItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, sent := limited(502, "")
		p := paced(t, 3, 10, server)
		chain := &retry{next: p, base: 500 * time.Millisecond, jitter: halfway}
		ctx, err := p.permits.grant(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var others sync.WaitGroup
		for range 30 {
			others.Go(func() {
				if err := p.permits.admit(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodGet, transporttest.PagePath, "")); err != nil {
			t.Fatal(err)
		}
		read := time.Now()
		if _, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodPatch, transporttest.PagePath, "{}")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(read); waited != 0 || len(sent()) != 3 {
			t.Errorf("the write waited %s after its read, of %d requests", waited, len(sent()))
		}
		others.Wait()
	})
}

func TestLengthOfPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := transporttest.Failure("rate_limited", "no", map[string]any{"rate_limit_reason": reasonBlocked})
		answer := transporttest.Reply(429, "")
		p := paced(t, 3, 10, func(*http.Request) (*http.Response, error) { return answer, nil })
		for i, tc := range []struct {
			answer *http.Response
			want   time.Duration
		}{
			{transporttest.Reply(429, ""), 5 * time.Second},
			{transporttest.Reply(429, ""), 10 * time.Second},
			{transporttest.Reply(529, "", "Retry-After", "soon"), 20 * time.Second},
			{transporttest.Reply(200, "{}"), 0},
			{transporttest.Reply(429, ""), 5 * time.Second},
			{transporttest.Reply(429, blocked), time.Minute},
			{transporttest.Reply(429, blocked, "Retry-After", "120"), 2 * time.Minute},
			{transporttest.Reply(429, ""), 40 * time.Second},
			{transporttest.Reply(429, ""), time.Minute},
			{transporttest.Reply(429, ""), time.Minute},
		} {
			answer = tc.answer
			p.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			start := time.Now()
			if err := p.permits.admit(t.Context(), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < tc.want || took > tc.want+tc.want/10+400*time.Millisecond {
				t.Errorf("pause %d took %s, want %s or a little more", i, took, tc.want)
			}
		}
	})
}

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
