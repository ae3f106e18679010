package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport/transporttest"

	"github.com/google/go-cmp/cmp"
)

func TestAnswersBecomeTypedErrors(t *testing.T) {
	const html = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>"
	saved := map[string]any{"retry_guidance": []any{"Read the object again to confirm the saved change."}}
	for _, tc := range []struct {
		name   string
		answer *http.Response
		want   APIError // without method and path
		text   string
	}{
		{
			name:   "unauthorized",
			answer: transporttest.Reply(401, transporttest.Failure("unauthorized", "API token is invalid.", nil)),
			want:   APIError{Status: 401, Code: "unauthorized", Message: "API token is invalid.", RequestID: "req-1", Landed: claim.LandedNo},
			text:   "PATCH " + transporttest.PagePath + ": 401 unauthorized: API token is invalid. (request req-1)",
		},
		{
			name:   "validation, in several lines",
			answer: transporttest.Reply(400, transporttest.Failure("validation_error", "body failed validation.\nFix one:\n\tbody.x", nil)),
			want:   APIError{Status: 400, Code: "validation_error", Message: "body failed validation. Fix one: body.x", RequestID: "req-1", Landed: claim.LandedNo},
		},
		{
			name:   "forbidden",
			answer: transporttest.Reply(403, transporttest.Failure("restricted_resource", "no", map[string]any{"block_limit": "block_creation"})),
			want: APIError{
				Status: 403, Code: "restricted_resource", Message: "no", RequestID: "req-1", Landed: claim.LandedNo,
				AdditionalData: map[string]any{"block_limit": "block_creation"},
			},
		},
		{
			name:   "conflict",
			answer: transporttest.Reply(409, transporttest.Failure("conflict_error", "Conflict occurred while saving.", nil)),
			want:   APIError{Status: 409, Code: "conflict_error", Message: "Conflict occurred while saving.", RequestID: "req-1", Landed: claim.LandedUnknown},
		},
		{
			name:   "rate limited, header",
			answer: transporttest.Reply(429, transporttest.Failure("rate_limited", "slow down", nil), "Retry-After", "90"),
			want:   APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 90 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "rate limited, body",
			answer: transporttest.Reply(429, transporttest.Failure("rate_limited", "slow down", map[string]any{"retry_after": "7"})),
			want: APIError{
				Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 7 * time.Second, Landed: claim.LandedNo,
				AdditionalData: map[string]any{"retry_after": "7"},
			},
		},
		{
			name: "rate limited, date",
			answer: transporttest.Reply(429, transporttest.Failure("rate_limited", "slow down", nil),
				"Date", "Fri, 20 Nov 2026 08:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 08:01:30 GMT"),
			want: APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 90 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "rate limited, absurdly",
			answer: transporttest.Reply(429, transporttest.Failure("rate_limited", "slow down", nil), "Retry-After", "99999999999"),
			want:   APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: longestPause, Landed: claim.LandedNo},
		},
		{
			name:   "overload",
			answer: transporttest.Reply(529, transporttest.Failure("service_overload", "busy", nil), "Retry-After", "3"),
			want:   APIError{Status: 529, Code: "service_overload", Message: "busy", RequestID: "req-1", RetryAfter: 3 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "unavailable",
			answer: transporttest.Reply(503, transporttest.Failure("service_unavailable", "Unavailable.", map[string]any{"retry_guidance": []any{"Use exponential backoff with jitter"}})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "Unavailable.", RequestID: "req-1", Landed: claim.LandedUnknown,
				AdditionalData: map[string]any{"retry_guidance": []any{"Use exponential backoff with jitter"}},
			},
		},
		{
			name:   "not saved",
			answer: transporttest.Reply(503, transporttest.Failure("service_unavailable", "The change was not saved.", map[string]any{"retry_guidance": []any{"Try again."}})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "The change was not saved.", RequestID: "req-1", Landed: claim.LandedUnknown,
				AdditionalData: map[string]any{"retry_guidance": []any{"Try again."}},
			},
		},
		{
			name:   "saved",
			answer: transporttest.Reply(503, transporttest.Failure("service_unavailable", "The change was saved, but the response could not be built in time.", saved)),
			want: APIError{
				Status: 503, Code: "service_unavailable", RequestID: "req-1", Landed: claim.LandedYes, AdditionalData: saved,
				Message: "The change was saved, but the response could not be built in time.",
			},
		},
		{
			name:   "created",
			answer: transporttest.Reply(503, transporttest.Failure("service_unavailable", "Late.", map[string]any{"committed_resource_id": "x"})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "Late.", RequestID: "req-1", Landed: claim.LandedYes,
				AdditionalData: map[string]any{"committed_resource_id": "x"},
			},
		},
		{
			name:   "HTML from the edge",
			answer: transporttest.Reply(502, html, "Cf-Ray", "a121da037c3863ed-LHR", "Content-Type", "text/html"),
			want: APIError{
				Status: 502, Message: "Bad Gateway, a page of HTML from the edge", RequestID: "a121da037c3863ed-LHR",
				Landed: claim.LandedUnknown,
			},
			text: "PATCH " + transporttest.PagePath + ": 502: Bad Gateway, a page of HTML from the edge (request a121da037c3863ed-LHR)",
		},
		{
			name:   "empty",
			answer: transporttest.Reply(504, ""),
			want:   APIError{Status: 504, Message: "Gateway Timeout, an empty answer", Landed: claim.LandedUnknown},
			text:   "PATCH " + transporttest.PagePath + ": 504: Gateway Timeout, an empty answer",
		},
		{
			name:   "success that is none",
			answer: transporttest.Reply(200, "<html>Welcome to the hotel's network</html>"),
			want:   APIError{Status: 200, Message: "a page of HTML", Landed: claim.LandedUnknown},
		},
		{
			name:   "redirect",
			answer: transporttest.Reply(302, "", "Location", "https://example.com/"),
			want:   APIError{Status: 302, Message: "Found, an empty answer", Landed: claim.LandedNo},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chain := &typed{next: transporttest.Server(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
			_, err := (&http.Client{Transport: chain}).Do(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
			got, isGot := errors.AsType[*APIError](err)
			if !isGot {
				t.Fatalf("err = %v, want an *APIError", err)
			}
			tc.want.Method, tc.want.Path = http.MethodPatch, transporttest.PagePath
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if tc.text != "" && got.Error() != tc.text {
				t.Errorf("Error() = %q, want %q", got.Error(), tc.text)
			}
			if strings.ContainsAny(got.Error(), "\r\n") {
				t.Errorf("Error() = %q has several lines", got.Error())
			}
		})
	}
}

// A request that was certainly never sent has not landed; of any other that has
// no answer nothing is known.
func TestFateOfRequestsWithoutAnswer(t *testing.T) {
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}
	cut := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			server.Read(make([]byte, 1))
			server.Close()
		}()
		return client, nil
	}}
	for _, tc := range []struct {
		name string
		next http.RoundTripper
		want claim.Landed
	}{
		{"no connection", refused, claim.LandedNo},
		{"connection cut", cut, claim.LandedUnknown},
		{"transport that does not tell", transporttest.Server(func(*http.Request) (*http.Response, error) { return nil, errors.New("failed") }), claim.LandedUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, err := parseBaseURL("http://notion.test")
			if err != nil {
				t.Fatal(err)
			}
			chain := &typed{next: &baseURL{next: tc.next, base: base}}
			_, err = chain.RoundTrip(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
			got, isGot := errors.AsType[*SendError](err)
			if !isGot || got.Landed != tc.want {
				t.Errorf("err = %#v, want a *SendError with landed %s", err, tc.want)
			}
		})
	}

	t.Run("context ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		chain := &typed{next: transporttest.Server(func(*http.Request) (*http.Response, error) {
			t.Error("sent")
			return transporttest.Reply(200, "{}"), nil
		})}
		_, err := chain.RoundTrip(transporttest.Request(t, ctx, http.MethodPatch, transporttest.PagePath, "{}"))
		got, isGot := errors.AsType[*SendError](err)
		if !isGot || got.Landed != claim.LandedNo || !errors.Is(err, context.Canceled) {
			t.Errorf("err = %#v, want a *SendError with landed no", err)
		}
	})
}

func TestClockListensToAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ahead := start.Add(time.Hour).Truncate(time.Second)
		said := ""
		e := newEars(slog.New(slog.DiscardHandler))
		chain := &hear{ears: e, next: &send{timeout: time.Minute, limit: answerLimit, next: transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(503, "", "Date", said), nil
		})}}
		date := ahead.UTC().Format(http.TimeFormat)
		for _, a := range []struct {
			said string
			want Moment
			now  time.Time
		}{
			{date, Moment{At: start.UTC()}, start}, // which nobody has confirmed
			{"yesterday", Moment{At: start.UTC()}, start},
			{"", Moment{At: start.UTC()}, start},
			{date, Moment{At: ahead.UTC(), Sure: true}, ahead},
			{"", Moment{At: ahead.UTC()}, ahead},
		} {
			said = a.said
			resp, err := chain.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, ""))
			if err != nil {
				t.Fatal(err)
			}
			if heard := MomentOf(WithBody(resp, nil)); heard != a.want || !e.now().Equal(a.now) {
				t.Errorf("after %q: %+v, now = %s; want %+v, %s", said, MomentOf(resp), e.now(), a.want, a.now)
			}
		}
		time.Sleep(time.Minute)
		if got := e.now(); !got.Equal(ahead.Add(time.Minute)) {
			t.Errorf("now = %s, want %s", got, ahead.Add(time.Minute))
		}
	})
}
