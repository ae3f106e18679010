package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestDescription looks at what programs rely on that are made from the description; all of it is in
// the record of TestGolden.
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
		for path, methods := range doc.Paths {
			for method, op := range methods {
				if ref := op.Responses["default"].Content["application/problem+json"].Schema.Ref; ref != "#/components/schemas/Problem" {
					t.Errorf("%s %s: the schema of errors is %q", method, path, ref)
				}
			}
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
