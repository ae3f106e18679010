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
)

func TestAnswersBecomeTypedErrors(t *testing.T) {
	const html, slow, unavailable = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>", "slow down", "service_unavailable"
	type data = map[string]any
	said := func(status int, code, message string, d data, headers ...string) *http.Response {
		return transporttest.Reply(status, transporttest.Failure(code, message, d), headers...)
	}
	saved, unsaved := data{"retry_guidance": []any{"Read the object again to confirm the saved change."}}, data{"retry_guidance": []any{"Use exponential backoff with jitter"}}
	limited := func(after time.Duration, d data) APIError {
		return APIError{Status: 429, Code: "rate_limited", Message: slow, RequestID: "req-1", RetryAfter: after, Landed: claim.LandedNo, AdditionalData: d}
	}
	failed := func(status int, code, message string, landed claim.Landed, d data) APIError {
		return APIError{Status: status, Code: code, Message: message, RequestID: "req-1", Landed: landed, AdditionalData: d}
	}
	for _, tc := range []struct {
		answer *http.Response
		want   APIError // without method and path
		text   string
	}{
		{said(401, "unauthorized", "API token is invalid.", nil), failed(401, "unauthorized", "API token is invalid.", claim.LandedNo, nil), "401 unauthorized: API token is invalid. (request req-1)"},
		{said(400, "validation_error", "body failed validation.\nFix one:\n\tbody.x", nil), failed(400, "validation_error", "body failed validation. Fix one: body.x", claim.LandedNo, nil), ""},
		{said(403, "restricted_resource", "no", data{"block_limit": "x"}), failed(403, "restricted_resource", "no", claim.LandedNo, data{"block_limit": "x"}), ""},
		{said(409, "conflict_error", "Conflict.", nil), failed(409, "conflict_error", "Conflict.", claim.LandedUnknown, nil), ""},
		{said(429, "rate_limited", slow, nil, "Retry-After", "90"), limited(90*time.Second, nil), ""},
		{said(429, "rate_limited", slow, data{"retry_after": "7"}), limited(7*time.Second, data{"retry_after": "7"}), ""},
		{said(429, "rate_limited", slow, nil, "Date", "Fri, 20 Nov 2026 08:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 08:01:30 GMT"), limited(90*time.Second, nil), ""},
		{said(429, "rate_limited", slow, nil, "Retry-After", "99999999999"), limited(longestPause, nil), ""},
		{said(529, "service_overload", "busy", nil, "Retry-After", "3"),
			APIError{Status: 529, Code: "service_overload", Message: "busy", RequestID: "req-1", RetryAfter: 3 * time.Second, Landed: claim.LandedNo}, ""},
		{said(503, unavailable, "Unavailable.", unsaved), failed(503, unavailable, "Unavailable.", claim.LandedUnknown, unsaved), ""},
		{said(503, unavailable, "The change was not saved.", unsaved), failed(503, unavailable, "The change was not saved.", claim.LandedUnknown, unsaved), ""},
		{said(503, unavailable, "The change was saved, but late.", saved), failed(503, unavailable, "The change was saved, but late.", claim.LandedYes, saved), ""},
		{said(503, unavailable, "Late.", data{"committed_resource_id": "x"}), failed(503, unavailable, "Late.", claim.LandedYes, data{"committed_resource_id": "x"}), ""},
		{transporttest.Reply(502, html, "Cf-Ray", "a121da037c3863ed-LHR", "Content-Type", "text/html"),
			APIError{Status: 502, Message: "Bad Gateway, a page of HTML from the edge", RequestID: "a121da037c3863ed-LHR", Landed: claim.LandedUnknown},
			"502: Bad Gateway, a page of HTML from the edge (request a121da037c3863ed-LHR)"},
		{transporttest.Reply(504, ""), APIError{Status: 504, Message: "Gateway Timeout, an empty answer", Landed: claim.LandedUnknown}, "504: Gateway Timeout, an empty answer"},
		{transporttest.Reply(200, "<html>Welcome to the hotel's network</html>"), APIError{Status: 200, Message: "a page of HTML", Landed: claim.LandedUnknown}, ""},
		{transporttest.Reply(302, "", "Location", "https://example.com/"), APIError{Status: 302, Message: "Found, an empty answer", Landed: claim.LandedNo}, ""},
	} {
		chain := &typed{next: transporttest.Server(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
		_, err := (&http.Client{Transport: chain}).Do(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
		got, isGot := errors.AsType[*APIError](err)
		if !isGot {
			t.Fatalf("err = %v, want an *APIError", err)
		}
		tc.want.Method, tc.want.Path = http.MethodPatch, transporttest.PagePath
		same(t, &tc.want, got, "error")
		if !strings.HasPrefix(got.Error(), "PATCH "+transporttest.PagePath+": ") || !strings.HasSuffix(got.Error(), tc.text) || strings.ContainsAny(got.Error(), "\r\n") {
			t.Errorf("Error() = %q, want %q", got.Error(), tc.text)
		}
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
		err := ask(t, &typed{next: &baseURL{next: tc.next, base: need(parseBaseURL("http://notion.test"))(t)}}, t.Context(), http.MethodPatch)
		got, isGot := errors.AsType[*SendError](err)
		if !isGot || got.Landed != tc.want {
			t.Errorf("%s: err = %#v, want a *SendError with landed %s", tc.name, err, tc.want)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel() // before it is sent
	err := ask(t, &typed{next: transporttest.Server(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return transporttest.Reply(200, "{}"), nil
	})}, ctx, http.MethodPatch)
	got, isGot := errors.AsType[*SendError](err)
	if !isGot || got.Landed != claim.LandedNo || !errors.Is(err, context.Canceled) {
		t.Errorf("err = %#v, want a *SendError with landed no", err)
	}
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
			resp := need(chain.RoundTrip(transporttest.Request(t, t.Context(), http.MethodGet, transporttest.PagePath, "")))(t)
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
