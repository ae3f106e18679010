package notion

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"

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
			answer: reply(401, apiError("unauthorized", "API token is invalid.", nil)),
			want:   APIError{Status: 401, Code: "unauthorized", Message: "API token is invalid.", RequestID: "req-1", Landed: claim.LandedNo},
			text:   "PATCH " + pagePath + ": 401 unauthorized: API token is invalid. (request req-1)",
		},
		{
			name:   "validation, in several lines",
			answer: reply(400, apiError("validation_error", "body failed validation.\nFix one:\n\tbody.x", nil)),
			want:   APIError{Status: 400, Code: "validation_error", Message: "body failed validation. Fix one: body.x", RequestID: "req-1", Landed: claim.LandedNo},
		},
		{
			name:   "forbidden",
			answer: reply(403, apiError("restricted_resource", "no", map[string]any{"block_limit": "block_creation"})),
			want: APIError{
				Status: 403, Code: "restricted_resource", Message: "no", RequestID: "req-1", Landed: claim.LandedNo,
				AdditionalData: map[string]any{"block_limit": "block_creation"},
			},
		},
		{
			name:   "conflict",
			answer: reply(409, apiError("conflict_error", "Conflict occurred while saving.", nil)),
			want:   APIError{Status: 409, Code: "conflict_error", Message: "Conflict occurred while saving.", RequestID: "req-1", Landed: claim.LandedUnknown},
		},
		{
			name:   "rate limited, header",
			answer: reply(429, apiError("rate_limited", "slow down", nil), "Retry-After", "90"),
			want:   APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 90 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "rate limited, body",
			answer: reply(429, apiError("rate_limited", "slow down", map[string]any{"retry_after": "7"})),
			want: APIError{
				Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 7 * time.Second, Landed: claim.LandedNo,
				AdditionalData: map[string]any{"retry_after": "7"},
			},
		},
		{
			name: "rate limited, date",
			answer: reply(429, apiError("rate_limited", "slow down", nil),
				"Date", "Fri, 20 Nov 2026 08:00:00 GMT", "Retry-After", "Fri, 20 Nov 2026 08:01:30 GMT"),
			want: APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: 90 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "rate limited, absurdly",
			answer: reply(429, apiError("rate_limited", "slow down", nil), "Retry-After", "99999999999"),
			want:   APIError{Status: 429, Code: "rate_limited", Message: "slow down", RequestID: "req-1", RetryAfter: longestPause, Landed: claim.LandedNo},
		},
		{
			name:   "overload",
			answer: reply(529, apiError("service_overload", "busy", nil), "Retry-After", "3"),
			want:   APIError{Status: 529, Code: "service_overload", Message: "busy", RequestID: "req-1", RetryAfter: 3 * time.Second, Landed: claim.LandedNo},
		},
		{
			name:   "unavailable",
			answer: reply(503, apiError("service_unavailable", "Unavailable.", map[string]any{"retry_guidance": []any{"Use exponential backoff with jitter"}})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "Unavailable.", RequestID: "req-1", Landed: claim.LandedUnknown,
				AdditionalData: map[string]any{"retry_guidance": []any{"Use exponential backoff with jitter"}},
			},
		},
		{
			name:   "not saved",
			answer: reply(503, apiError("service_unavailable", "The change was not saved.", map[string]any{"retry_guidance": []any{"Try again."}})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "The change was not saved.", RequestID: "req-1", Landed: claim.LandedUnknown,
				AdditionalData: map[string]any{"retry_guidance": []any{"Try again."}},
			},
		},
		{
			name:   "saved",
			answer: reply(503, apiError("service_unavailable", "The change was saved, but the response could not be built in time.", saved)),
			want: APIError{
				Status: 503, Code: "service_unavailable", RequestID: "req-1", Landed: claim.LandedYes, AdditionalData: saved,
				Message: "The change was saved, but the response could not be built in time.",
			},
		},
		{
			name:   "created",
			answer: reply(503, apiError("service_unavailable", "Late.", map[string]any{"committed_resource_id": "x"})),
			want: APIError{
				Status: 503, Code: "service_unavailable", Message: "Late.", RequestID: "req-1", Landed: claim.LandedYes,
				AdditionalData: map[string]any{"committed_resource_id": "x"},
			},
		},
		{
			name:   "HTML from the edge",
			answer: reply(502, html, "Cf-Ray", "a121da037c3863ed-LHR", "Content-Type", "text/html"),
			want: APIError{
				Status: 502, Message: "Bad Gateway, a page of HTML from the edge", RequestID: "a121da037c3863ed-LHR",
				Landed: claim.LandedUnknown,
			},
			text: "PATCH " + pagePath + ": 502: Bad Gateway, a page of HTML from the edge (request a121da037c3863ed-LHR)",
		},
		{
			name:   "empty",
			answer: reply(504, ""),
			want:   APIError{Status: 504, Message: "Gateway Timeout, an empty answer", Landed: claim.LandedUnknown},
			text:   "PATCH " + pagePath + ": 504: Gateway Timeout, an empty answer",
		},
		{
			name:   "success that is none",
			answer: reply(200, "<html>Welcome to the hotel's network</html>"),
			want:   APIError{Status: 200, Message: "a page of HTML", Landed: claim.LandedUnknown},
		},
		{
			name:   "redirect",
			answer: reply(302, "", "Location", "https://example.com/"),
			want:   APIError{Status: 302, Message: "Found, an empty answer", Landed: claim.LandedNo},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chain := &typed{next: roundTrip(func(*http.Request) (*http.Response, error) { return tc.answer, nil })}
			_, err := (&http.Client{Transport: chain}).Do(request(t, t.Context(), http.MethodPatch, pagePath, "{}"))
			var got *APIError
			if !errors.As(err, &got) {
				t.Fatalf("err = %v, want an *APIError", err)
			}
			tc.want.Method, tc.want.Path = http.MethodPatch, pagePath
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
		{"transport that does not tell", roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("failed") }), claim.LandedUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, err := parseBaseURL("http://notion.test")
			if err != nil {
				t.Fatal(err)
			}
			chain := &typed{next: &baseURL{next: tc.next, base: base}}
			_, err = chain.RoundTrip(request(t, t.Context(), http.MethodPatch, pagePath, "{}"))
			var got *SendError
			if !errors.As(err, &got) || got.Landed != tc.want {
				t.Errorf("err = %#v, want a *SendError with landed %s", err, tc.want)
			}
		})
	}

	t.Run("context ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		chain := &typed{next: roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("sent")
			return reply(200, "{}"), nil
		})}
		_, err := chain.RoundTrip(request(t, ctx, http.MethodPatch, pagePath, "{}"))
		var got *SendError
		if !errors.As(err, &got) || got.Landed != claim.LandedNo || !errors.Is(err, context.Canceled) {
			t.Errorf("err = %#v, want a *SendError with landed no", err)
		}
	})
}

func TestStoreErrors(t *testing.T) {
	answered := func(status int, code, message string, data map[string]any) error {
		e := &APIError{Method: "PATCH", Path: pagePath, Status: status, Code: code, Message: message, AdditionalData: data, RetryAfter: 5 * time.Second}
		e.Landed = e.landed()
		return e
	}
	for _, tc := range []struct {
		name   string
		err    error
		kind   claim.StoreErrorKind
		landed claim.Landed
		advice string
	}{
		{"token", answered(401, "unauthorized", "API token is invalid.", nil), claim.Refused, claim.LandedNo, "check notion.token"},
		{"restricted", answered(403, "restricted_resource", "no", nil), claim.Refused, claim.LandedNo, "capabilities"},
		{"no blocks", answered(403, "restricted_resource", "no", map[string]any{"block_limit": "block_creation"}), claim.Refused, claim.LandedNo, "no blocks left"},
		{"not shared", answered(404, "object_not_found", "Could not find page", nil), claim.NotFound, claim.LandedNo, "share the database with the connection"},
		{"validation", answered(400, "validation_error", "Colour is not a property that exists.", nil), claim.Refused, claim.LandedNo, "Colour"},
		{"an archived property", answered(400, "validation_error", "archived is not a property that exists.", nil), claim.Refused, claim.LandedNo, ""},
		{"trashed", answered(400, "validation_error", "Can't edit block that is archived. You must unarchive the block before editing.", nil), claim.Trashed, claim.LandedNo, ""},
		{"trashed, other words", answered(400, "validation_error", "Can't edit page that is in the trash.", nil), claim.Trashed, claim.LandedNo, ""},
		{"sources", answered(400, "validation_error", "no", map[string]any{"error_type": "multiple_data_sources_for_database"}), claim.Refused, claim.LandedNo, "several data sources"},
		{"conflict", answered(409, "conflict_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"rate limit", answered(429, "rate_limited", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"blocked", answered(429, "rate_limited", "no", map[string]any{"rate_limit_reason": "public_api_request_blocked"}), claim.Refused, claim.LandedNo, "blocked this connection"},
		{"server error", answered(500, "internal_server_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"gateway", answered(502, "", "Bad Gateway, a page of HTML", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"overload", answered(529, "service_overload", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"redirect", answered(301, "", "no", nil), claim.Refused, claim.LandedNo, "check notion.base_url"},
		{"not Notion", answered(200, "", "a page of HTML", nil), claim.Unavailable, claim.LandedUnknown, "check notion.base_url"},
		{"no answer", &SendError{Method: "PATCH", Path: pagePath, Landed: claim.LandedUnknown, RetryAfter: 5 * time.Second, Err: errors.New("cut")}, claim.Unavailable, claim.LandedUnknown, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := storeError(tc.err)
			if got.Kind != tc.kind || got.Landed != tc.landed || got.RetryAfter != 5*time.Second {
				t.Errorf("storeError = kind %d, landed %s, retry after %s; want kind %d, landed %s, 5s", got.Kind, got.Landed, got.RetryAfter, tc.kind, tc.landed)
			}
			if !strings.Contains(got.Error(), tc.advice) || !strings.Contains(got.Error(), "PATCH "+pagePath) {
				t.Errorf("storeError says %q, want the request and %q", got, tc.advice)
			}
			if !errors.Is(got, tc.err) {
				t.Error("storeError does not wrap its error")
			}
		})
	}
}
