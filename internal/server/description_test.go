package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescription(t *testing.T) {
	inBubble(t, "openapi", func(t *testing.T) {
		f := start(t)
		got := f.must("GET", "/openapi.json", "")
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/openapi+json" {
			t.Fatalf("status %d, type %q", got.status, got.header.Get("Content-Type"))
		}
		type schema struct {
			Ref        string                     `json:"$ref"`
			Type       any                        `json:"type"`
			Format     string                     `json:"format"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		var doc struct {
			Info  struct{ Version string }
			Paths map[string]map[string]struct {
				Responses map[string]struct {
					Content map[string]struct{ Schema schema }
				}
			}
			Components struct{ Schemas map[string]schema }
		}
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Info.Version != "v1.2.3" {
			t.Errorf("version %q", doc.Info.Version)
		}
		var operations []string
		for path, methods := range doc.Paths {
			for method, op := range methods {
				operations = append(operations, strings.ToUpper(method)+" "+path)
				if ref := op.Responses["default"].Content["application/problem+json"].Schema.Ref; ref != "#/components/schemas/Problem" {
					t.Errorf("%s %s: the schema of errors is %q", method, path, ref)
				}
			}
		}
		slices.Sort(operations)
		want := []string{
			"DELETE /v1/reservations/{id}", "GET /v1/agents", "GET /v1/agents/{name}", "GET /v1/claims", "GET /v1/claims/{id}", "GET /v1/claims/{id}/alive", "GET /v1/cluster", "GET /v1/events", "GET /v1/history", "GET /v1/log", "GET /v1/reservations", "GET /v1/status", "GET /v1/tasks", "GET /v1/tasks/{id}",
			"GET /v1/tasks/{id}/content",
			"POST /v1/ack", "POST /v1/agents", "POST /v1/agents/{name}/ack", "POST /v1/agents/{name}/poll",
			"POST /v1/claims", "POST /v1/claims/{id}/ask", "POST /v1/claims/{id}/block", "POST /v1/claims/{id}/complete", "POST /v1/claims/{id}/fail",
			"POST /v1/claims/{id}/release", "POST /v1/claims/{id}/renew", "POST /v1/claims/{id}/review", "POST /v1/cluster/adopt", "POST /v1/messages", "POST /v1/reservations", "POST /v1/reservations/check", "POST /v1/sweep", "POST /v1/sync",
			"POST /v1/tasks", "POST /v1/tasks/{id}/accept", "POST /v1/tasks/{id}/comments", "POST /v1/tasks/{id}/decline", "POST /v1/tasks/{id}/offer",
			"POST /v1/tasks/{id}/reopen",
		}
		if diff := cmp.Diff(want, operations); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
		// Programs made from the description have types of these names.
		names := slices.Sorted(maps.Keys(doc.Components.Schemas))
		want = []string{
			"AcceptRequest", "AckRequest", "Acked", "AddRequest", "Added", "Agent", "AgentSummary", "Agents", "AskRequest", "BlockRequest", "CheckRequest", "CheckTarget", "Checked", "Claim", "ClaimRequest", "Claims", "Cluster", "ClusterStatus",
			"Comment", "CommentRequest", "Commented", "CompleteRequest", "DeclineRequest", "Event", "Events",
			"FailRequest", "Fault", "FeedEvent", "History", "Member", "Message", "MessageRequest", "MintRequest", "Minted", "MirrorStatus", "NotionStatus", "Offer", "OfferRequest", "Offered",
			"OutboxStatus", "PolicyStatus", "PollRequest", "Problem", "ReadToWrite", "RenewRequest", "ReopenRequest", "Reopened",
			"Reservation", "Reservations", "ReserveRequest", "ReserveTarget", "Reserved", "ReviewRequest", "Spot", "Status", "StopRequest", "Summary", "Sweep", "SweepRequest", "Swept",
			"Sync", "SyncProgress", "SyncRequest", "Task", "TaskContent", "TaskRef", "Tasks", "Trigger", "Triggers", "Waited",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("schemas (-want +got):\n%s", diff)
		}
		if doc.Components.Schemas["FeedEvent"].Properties["changed"] == nil || doc.Components.Schemas["Event"].Properties["against"] == nil {
			t.Error("FeedEvent is not what happens to tasks, or Event is not an entry of the log")
		}
		for _, name := range []string{"id", "title", "status", "content", "comments", "written_by"} {
			if doc.Components.Schemas["TaskContent"].Properties[name] == nil {
				t.Errorf("TaskContent has no %s", name)
			}
		}
		var at schema
		if err := json.Unmarshal(doc.Components.Schemas["Claim"].Properties["expires_at"], &at); err != nil || at.Format != "date-time" {
			t.Errorf("expires_at is described as %+v (%v), want a date-time", at, err)
		}
	})
}
