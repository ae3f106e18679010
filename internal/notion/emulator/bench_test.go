package emulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"dibs/internal/notion/emulator"
)

// BenchmarkRequests measures requests on a board of 10,000 tasks, without the network:
//
//	go test -run=NONE -bench=Requests ./internal/notion/emulator
func BenchmarkRequests(b *testing.B) {
	e, err := emulator.New(emulator.Options{Token: "t"})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	dbs, err := e.Seed("empty")
	if err != nil {
		b.Fatal(err)
	}
	if err := e.AddTasks(10_000); err != nil {
		b.Fatal(err)
	}
	pages := e.Pages(dbs.Tasks)
	do := func(b *testing.B, method, path string, body any) {
		data, err := json.Marshal(body)
		if err != nil {
			b.Fatal(err)
		}
		r := httptest.NewRequest(method, path, bytes.NewReader(data))
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Notion-Version", "2022-06-28")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	query := func(body object) func(*testing.B, int) {
		return func(b *testing.B, _ int) { do(b, "POST", "/v1/databases/"+dbs.Tasks+"/query", body) }
	}
	for _, c := range []struct {
		name string
		do   func(b *testing.B, i int)
	}{
		{"get-page", func(b *testing.B, i int) { do(b, "GET", pathPages+"/"+pages[i%len(pages)].ID, nil) }},
		{"patch-page", func(b *testing.B, i int) {
			do(b, "PATCH", pathPages+"/"+pages[i%len(pages)].ID, object{"properties": object{
				"status": object{"status": object{"name": "IN_PROGRESS"}}, "claimed_by": text("Sandman"),
				"claimed_at": object{"date": object{"start": "2026-01-02T03:04:05Z"}}, "claim_token": text("01KA8XQ5V8ZJ6N3T4R7W9Y2M1D"),
			}})
		}},
		{"post-page", func(b *testing.B, i int) {
			do(b, "POST", pathPages, object{"parent": object{"database_id": dbs.MeshLog}, "properties": object{
				"Name": title("Sandman claims a task"), "entry_id": text(fmt.Sprint(i)), "agent": text("Sandman"),
				"event": object{"select": object{"name": "granted"}}, "at": object{"date": object{"start": "2026-01-02T03:04:05Z"}},
			}})
		}},
		{"query-all", query(object{"sorts": list{object{"timestamp": "created_time", "direction": "ascending"}}})},
		{"query-edited", query(object{
			"filter": object{"timestamp": "last_edited_time", "last_edited_time": object{"on_or_after": "2200-01-02T03:04:05Z"}},
			"sorts":  list{object{"timestamp": "last_edited_time", "direction": "ascending"}},
		})},
		{"query-open", query(object{
			"filter":    object{"and": list{object{"property": "status", "status": object{"equals": "OPEN"}}, object{"property": "claimed_by", "rich_text": object{"is_empty": true}}}},
			"sorts":     list{object{"property": "priority", "direction": "ascending"}},
			"page_size": 1,
		})},
	} {
		b.Run(c.name, func(b *testing.B) {
			e.ResetRequests()
			for i := 0; b.Loop(); i++ {
				c.do(b, i)
			}
		})
	}
}
