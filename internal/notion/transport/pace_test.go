package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport/transporttest"

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
		synctest.Test(t, func(t *testing.T) {
			server, sent := limited(status, "", "Retry-After", "90")
			p := paced(t, 3, 10, server)
			granted := need(p.permits.grant(t.Context(), 2))(t)
			start := time.Now()
			if ask(t, p, t.Context(), http.MethodGet) == nil {
				t.Fatal("no error from a limited request")
			}
			var group sync.WaitGroup
			for _, req := range []*http.Request{ // reads wait, and so does the entry of a log
				transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""),
				transporttest.Request(t, InLane(t.Context(), LaneSync), http.MethodGet, transporttest.PagePath, ""),
				transporttest.Request(t, InLane(t.Context(), LaneLog), http.MethodPost, "/v1/pages", "{}"),
			} {
				group.Go(func() {
					if _, err := p.RoundTrip(req); err != nil {
						t.Errorf("%s: %v", req.Method, err)
					}
				})
			}
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, tc := range []struct { // a write does not, nor what an agent or a person waits for, nor what would be too late
				ctx    context.Context
				method string
			}{
				{t.Context(), http.MethodPatch}, {granted, http.MethodPatch}, {granted, http.MethodGet}, {Impatient(t.Context()), http.MethodGet},
				{WithoutPermits(granted), http.MethodGet}, {Patient(t.Context(), time.Minute), http.MethodGet}, {soon, http.MethodGet},
			} {
				err := ask(t, p, tc.ctx, tc.method)
				failed, isFailed := errors.AsType[*SendError](err)
				if !isFailed || failed.Landed != claim.LandedNo || !errors.Is(err, errHeldBack) || failed.RetryAfter < 90*time.Second || failed.RetryAfter > 99*time.Second {
					t.Errorf("%s: %v, want that it was not sent, and when to try again", tc.method, err)
				}
			}
			took(t, start, 0, 0, "to be refused")
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
	}
}

// Those who are waiting when a pause begins are treated like those who come later.
func TestPauseReachesThoseWhoWait(t *testing.T) {
	inPace(t, 10, func(t *testing.T, p *pace) {
		var group sync.WaitGroup
		start := time.Now()
		group.Go(func() {
			if err := ask(t, p, t.Context(), http.MethodPatch); !errors.Is(err, errHeldBack) || time.Since(start) != 0 {
				t.Errorf("a write: %v after %s", err, time.Since(start))
			}
		})
		group.Go(func() {
			if err := ask(t, p, t.Context(), http.MethodGet); err != nil || time.Since(start) < time.Minute {
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
		ctx := need(p.permits.grant(t.Context(), 2))(t)
		var others sync.WaitGroup
		for range 30 {
			others.Go(func() {
				if err := p.permits.admit(t.Context(), time.Time{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		must(t, ask(t, chain, ctx, http.MethodGet))
		read := time.Now()
		must(t, ask(t, chain, ctx, http.MethodPatch))
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
			ask(t, p, t.Context(), http.MethodGet)
			start := time.Now()
			must(t, p.permits.admit(t.Context(), time.Time{}))
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
		method, path string
		answers      []int // 0 cuts the connection, -1 blocks it
		sent         int
		status       int           // of the error, 0 for success
		waits        time.Duration // half a second, one and two between the tries, but none after a rate limit: the pause decides
	}{
		{"POST", transporttest.QueryPath, []int{502, 0, 429, 200}, 4, 0, 1500 * time.Millisecond},
		{"GET", transporttest.PagePath, []int{529, 500, 504, 200}, 4, 0, 3 * time.Second},
		{"GET", transporttest.PagePath, []int{503, 503, 503, 503}, 4, 503, 3500 * time.Millisecond},
		{"GET", transporttest.PagePath, []int{404}, 1, 404, 0},
		{"GET", transporttest.PagePath, []int{-1}, 1, 429, 0},
		{"PATCH", transporttest.PagePath, []int{503}, 1, 503, 0},
		{"PATCH", transporttest.PagePath, []int{429}, 1, 429, 0},
		{"POST", "/v1/pages", []int{502}, 1, 502, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &script{t: t}
			for _, status := range tc.answers {
				switch status {
				case 0:
					server.answers = append(server.answers, nil)
				case -1:
					server.answers = append(server.answers, transporttest.Reply(429, blocked))
				default:
					server.answers = append(server.answers, transporttest.Reply(status, map[bool]string{true: "{}"}[status == 200]))
				}
			}
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
				t.Errorf("%s %v: err = %v, want status %d", tc.method, tc.answers, err, tc.status)
			}
			same(t, slices.Repeat([]string{sends}, tc.sent), server.bodies, "bodies sent")
			took(t, start, tc.waits, tc.waits, fmt.Sprint(tc.method, tc.answers))
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{t: t, answers: []*http.Response{transporttest.Reply(502, ""), transporttest.Reply(502, ""), transporttest.Reply(502, "")}}
		chain := &retry{next: &typed{next: server}, base: time.Second, jitter: halfway}
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		err := ask(t, chain, ctx, http.MethodGet)
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
	base := need(parseBaseURL(server.URL))(t)
	// Without the wait between tries, and without the pause: these need a clock.
	chain := &retry{next: &typed{next: &baseURL{
		next: &send{next: server.Client().Transport, timeout: time.Minute, limit: answerLimit}, base: base,
	}}}
	api := notionapi.NewClient("token", notionapi.WithHTTPClient(&http.Client{Transport: chain}), notionapi.WithRetry(1))
	need(api.Database.Query(t.Context(), "2f835e81-2bbb-81b6-9700-e18108a40b1f", &notionapi.DatabaseQueryRequest{PageSize: 100}))(t)
	same(t, slices.Repeat([]string{`HTTP/2.0 {"page_size":100}`}, 3), bodies, "bodies")
}
