package notion

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
)

// carried is the transport to a server.
func carried(t *testing.T, server transporttest.Server) *transport.Transport {
	t.Helper()
	carrier, err := transport.New(transport.Options{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	return carrier
}

func TestStoreErrors(t *testing.T) {
	// answered is the error of an answer, as the transport makes it.
	answered := func(status int, body string) error {
		_, err := carried(t, func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(status, body, "Retry-After", "5"), nil
		}).RoundTrip(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
		return err
	}
	said := func(status int, code, message string, data map[string]any) error {
		return answered(status, transporttest.Failure(code, message, data))
	}
	for _, tc := range []struct {
		name   string
		err    error
		kind   claim.StoreErrorKind
		landed claim.Landed
		advice string
	}{
		{"token", said(401, "unauthorized", "API token is invalid.", nil), claim.Refused, claim.LandedNo, "check notion.token"},
		{"restricted", said(403, "restricted_resource", "no", nil), claim.Refused, claim.LandedNo, "capabilities"},
		{"the edge", answered(403, "<html>"), claim.Unavailable, claim.LandedNo, "try from another network"},
		{"linked", said(400, "validation_error", "Database retrievals do not support linked databases.", nil), claim.Refused, claim.LandedNo, "a linked view of another database"},
		{"a page's id", said(400, "validation_error", "Provided ID x is a page, not a database.", nil), claim.Refused, claim.LandedNo, "the id of something else"},
		{"no blocks", said(403, "restricted_resource", "no", map[string]any{"block_limit": "block_creation"}), claim.Refused, claim.LandedNo, "no blocks left"},
		{"not shared", said(404, "object_not_found", "Could not find page", nil), claim.NotFound, claim.LandedNo, "share the database with the connection"},
		{"validation", said(400, "validation_error", "Colour is not a property that exists.", nil), claim.Refused, claim.LandedNo, "Colour"},
		{"an archived property", said(400, "validation_error", "archived is not a property that exists.", nil), claim.Refused, claim.LandedNo, ""},
		{"trashed", said(400, "validation_error", "Can't edit block that is archived. You must unarchive the block before editing.", nil), claim.Trashed, claim.LandedNo, ""},
		{"trashed, other words", said(400, "validation_error", "Can't edit page that is in the trash.", nil), claim.Trashed, claim.LandedNo, ""},
		{"conflict", said(409, "conflict_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"rate limit", said(429, "rate_limited", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"blocked", said(429, "rate_limited", "no", map[string]any{"rate_limit_reason": "public_api_request_blocked"}), claim.Refused, claim.LandedNo, "blocked this connection"},
		{"server error", said(500, "internal_server_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"gateway", answered(502, "<html>"), claim.Unavailable, claim.LandedUnknown, ""},
		{"overload", said(529, "service_overload", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"redirect", said(301, "", "no", nil), claim.Refused, claim.LandedNo, "check notion.base_url"},
		{"not Notion", answered(200, "<html>"), claim.Unavailable, claim.LandedUnknown, "check notion.base_url"},
		{"no answer", &transport.SendError{Method: "PATCH", Server: "api.notion.com", Path: transporttest.PagePath, Landed: claim.LandedUnknown, RetryAfter: 5 * time.Second, Err: errors.New("cut")}, claim.Unavailable, claim.LandedUnknown, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := storeError(tc.err)
			if got.Kind != tc.kind || got.Landed != tc.landed || got.RetryAfter != 5*time.Second {
				t.Errorf("storeError = kind %d, landed %s, retry after %s; want kind %d, landed %s, 5s", got.Kind, got.Landed, got.RetryAfter, tc.kind, tc.landed)
			}
			if !strings.Contains(got.Error(), tc.advice) || !strings.Contains(got.Error(), "PATCH api.notion.com"+transporttest.PagePath) {
				t.Errorf("storeError says %q, want the request and %q", got, tc.advice)
			}
			if !errors.Is(got, tc.err) {
				t.Error("storeError does not wrap its error")
			}
		})
	}
}
