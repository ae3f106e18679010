package emulator_test

import (
	"net/http"
	"testing"

	"dibs/internal/notion/emulator"
)

// The formula of a claim's end is computed: a date, or empty.
func TestFormulaOfALease(t *testing.T) {
	a := start(t, emulator.Options{})
	dbs, err := a.e.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		claimed any
		minutes any
		want    string
	}{
		{object{"start": "2026-11-22T14:02:59Z"}, nil, "2026-11-22T14:32:00.000+00:00"},
		{object{"start": "2026-11-22T14:02:00+01:00"}, 90, "2026-11-22T15:32:00.000+01:00"},
		{object{"start": "2026-11-22T14:02:00Z"}, 0, "2026-11-22T14:32:00.000+00:00"},
		{nil, 90, ""},
	} {
		id := a.row(dbs.Tasks, object{"claimed_at": object{"date": tt.claimed}, "claim_timeout_minutes": object{"number": tt.minutes}})
		got := at(a.ok("GET", "/v1/pages/"+id, nil), "properties", "claimed_until", "formula")
		if at(got, "type") != "date" {
			t.Fatalf("formula %v, want a date", got)
		}
		start, _ := at(got, "date", "start").(string)
		if start != tt.want {
			t.Errorf("claimed at %v for %v: %q, want %q", tt.claimed, tt.minutes, start, tt.want)
		}
	}
	a.refused("PATCH", "/v1/databases/"+dbs.Tasks, object{"properties": object{"Until": object{"formula": object{"expression": `dateAdd(prop("Since"), 30, "minutes")`}}}},
		http.StatusBadRequest, "validation_error", "Could not find property with name or id: Since")
}

func TestViewsSayWhereTheyAre(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a25 := a.as("2025-09-03")
	made := a25.ok("POST", "/v1/views", object{"database_id": dbs.Tasks, "data_source_id": a.sourceOf(dbs.Tasks), "name": "All", "type": "table"})
	id := made["id"].(string)
	want := "https://www.notion.so/" + undashed(dbs.Tasks) + "?v=" + undashed(id)
	if got := a25.ok("GET", "/v1/views/"+id, nil); made["url"] != want || got["url"] != want {
		t.Errorf("made at %v, read at %v, want %s", made["url"], got["url"], want)
	}
}
