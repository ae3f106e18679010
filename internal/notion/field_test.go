package notion_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/notion"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// Fields of every type are read from a page, from a query and from the answer to a write,
// and are what JSON makes of them.
func TestFields(t *testing.T) {
	inWorld(t, func(w *world) {
		schema := map[string]any{
			"Sprint": of("number"), "Area": of("multi_select", "Web", "API"), "Done when": of("rich_text"), "Team": of("select", "Blue"), "Due": of("date"), "Span": of("date"),
			"Urgent": of("checkbox"), "Spec": of("url"), "Mail": of("email"), "Part of": props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}},
			"Who": of("people"), "Made": of("created_time"), "Push": of("button"),
		}
		if err := w.emulator.EditSchema(w.databases.Tasks, schema); err != nil {
			w.Fatal(err)
		}
		names := []string{"Sprint", "Area", "Done when", "Team", "Due", "Span", "Urgent", "Spec", "Mail", "Part of", "Who", "Made", "claimed_until", "Name", "ID", "Push", "Nonsense"}
		tasks := w.tasks(notion.TaskSchema{Fields: names})
		other := w.page(props{"Name": title("Other")})
		id := w.page(props{
			"Name": title("Ship it"), "Sprint": number(42), "Area": props{"multi_select": []any{props{"name": "Web"}, props{"name": "API"}}},
			"Done when": props{"rich_text": []any{spans(strings.Repeat("x", 1999))[0], spans("\x1b[31myy")[0]}}, "Team": choice("Blue"), "Due": day("2026-03-01"),
			"Span":   props{"date": props{"start": "2026-03-01T10:00:00Z", "end": "2026-03-02T10:00:00Z"}},
			"Urgent": props{"checkbox": true}, "Spec": props{"url": "https://example.org/spec"}, "Part of": relates(other),
		})
		want := task.Fields{
			"Sprint": 42.0, "Area": []any{"Web", "API"}, "Done when": strings.Repeat("x", 1999) + "…", "Team": "Blue", "Due": "2026-03-01",
			"Span":   map[string]any{"start": "2026-03-01T10:00:00.000+00:00", "end": "2026-03-02T10:00:00.000+00:00"},
			"Urgent": true, "Spec": "https://example.org/spec", "Mail": nil, "Part of": []any{string(other)}, "Who": nil, "Made": "2000-01-01T00:00:00.000Z",
			"claimed_until": nil, "Name": "Ship it", "ID": "TASK-2", "Push": nil, "Nonsense": nil,
		}
		got := w.get(tasks, id).Fields
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("page: -want +got\n%s", diff)
		}
		data, err := json.Marshal(got)
		var again task.Fields
		if err != nil || json.Unmarshal(data, &again) != nil || !reflect.DeepEqual(again, got) {
			w.Errorf("after JSON: %v, %v", again, err)
		}
		rows, _, err := tasks.Query(w.Context(), notion.Query{})
		if err != nil || len(rows) != 2 {
			w.Fatal(rows, err)
		}
		if rows[0].ID == id { // made in the same minute
			slices.Reverse(rows)
		}
		if diff := cmp.Diff(want, rows[1].Fields); diff != "" {
			w.Errorf("row: -want +got\n%s", diff)
		}
		if f := rows[0].Fields; f["Urgent"] != false || f["Sprint"] != nil || f["Area"] != nil || len(f) != len(names) {
			w.Errorf("a task without values shows %v", f)
		}
		written, err := tasks.Write(w.Context(), id, claimed("Sandman", time.Now()))
		want["claimed_until"] = "2000-01-01T00:45:00.000+00:00"
		if diff := cmp.Diff(want, written.Task.Fields); diff != "" || err != nil {
			w.Errorf("write: %v, -want +got\n%s", err, diff)
		}
		said := strings.Join(tasks.Warnings(), "\n")
		for _, warning := range []string{
			`property "Push" of tasks.fields is of type button, which has no value that can be shown: take it out of tasks.fields; until then it is empty in every task`,
			`property "Nonsense" of tasks.fields is missing: add it, or take it out of tasks.fields; until then it is empty in every task`,
		} {
			if !strings.Contains(said, warning) {
				w.Errorf("warnings %q lack %q", said, warning)
			}
		}
		if plain := w.get(w.tasks(notion.TaskSchema{}), id); plain.Fields != nil {
			w.Errorf("nothing is configured, and the task shows %v", plain.Fields)
		}
	})
}

// What the emulator does not make by itself: formulas and rollups of all kinds, people,
// files, and what nobody has seen yet.
func TestFieldsOfOtherForms(t *testing.T) {
	cases := map[string]struct {
		shown string
		want  any
	}{
		"text":       {`{"type":"formula","formula":{"type":"string","string":"x"}}`, "x"},
		"no text":    {`{"type":"formula","formula":{"type":"string","string":null}}`, nil},
		"number":     {`{"type":"formula","formula":{"type":"number","number":1.5}}`, 1.5},
		"bool":       {`{"type":"formula","formula":{"type":"boolean","boolean":false}}`, false},
		"date":       {`{"type":"formula","formula":{"type":"date","date":{"start":"2026-03-01","end":null}}}`, "2026-03-01"},
		"sum":        {`{"type":"rollup","rollup":{"type":"number","number":7,"function":"sum"}}`, 7.0},
		"latest":     {`{"type":"rollup","rollup":{"type":"date","date":{"start":"2026-03-01"},"function":"latest_date"}}`, "2026-03-01"},
		"array":      {`{"type":"rollup","rollup":{"type":"array","array":[{"type":"number","number":1},{"type":"number","number":null},{"type":"multi_select","multi_select":[{"name":"a"},{"name":"b"}]},{"type":"title","title":[{"plain_text":"c"}]}]}}`, []any{1.0, "a", "b", "c"}},
		"unfinished": {`{"type":"rollup","rollup":{"type":"incomplete","incomplete":{}}}`, nil},
		"people":     {`{"type":"people","people":[{"object":"user","id":"6794760a-1f15-45cd-9c65-0dfe42f5135a","name":"Anna"},{"object":"user","id":"6794760a-1f15-45cd-9c65-0dfe42f5135b"}]}`, []any{"Anna", "6794760a-1f15-45cd-9c65-0dfe42f5135b"}},
		"maker":      {`{"type":"created_by","created_by":{"object":"user","id":"6794760a-1f15-45cd-9c65-0dfe42f5135a","name":"Anna"}}`, "Anna"},
		"files":      {`{"type":"files","files":[{"name":"a.pdf","type":"file","file":{"url":"https://s3.example/1","expiry_time":"2026-03-01T00:00:00Z"}}]}`, []any{"a.pdf"}},
		"verified":   {`{"type":"verification","verification":{"state":"verified","date":null}}`, "verified"},
		"control":    {`{"type":"url","url":"a\u001b[31mb"}`, "ab"},
		"phone":      {`{"type":"phone_number","phone_number":"112"}`, "112"},
		"state":      {`{"type":"status","status":{"name":"Review"}}`, "Review"},
		"no status":  {`{"type":"status","status":null}`, nil},
		"new":        {`{"type":"hologram","hologram":{"depth":3}}`, nil},
		"broken":     {`{"type":"checkbox","checkbox":"yes"}`, nil},
		"no number":  {`{"type":"unique_id","unique_id":{"prefix":null,"number":null}}`, nil},
		"no date":    {`{"type":"date","date":{"start":"soon"}}`, nil},
		"odd end":    {`{"type":"date","date":{"start":"2026-03-01","end":"soon"}}`, "2026-03-01"},
		"local time": {`{"type":"date","date":{"start":"2026-03-01T10:00:00","time_zone":"Europe/Berlin"}}`, "2026-03-01T10:00:00"},
		"large":      {`{"type":"number","number":1e300}`, 1e300},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if err := w.emulator.EditSchema(w.databases.Tasks, map[string]any{"Field": of("rich_text")}); err != nil {
					w.Fatal(err)
				}
				id := w.page(props{"Name": title("Ship it")})
				w.answering(string(id), func(body map[string]any) {
					var p map[string]any
					if err := json.Unmarshal([]byte(tt.shown), &p); err != nil {
						w.Fatal(err)
					}
					all := body["properties"].(map[string]any)
					p["id"] = all["Field"].(map[string]any)["id"]
					all["Field"] = p
				})
				got := w.get(w.tasks(notion.TaskSchema{Fields: []string{"Field"}}), id)
				if diff := cmp.Diff(tt.want, got.Fields["Field"]); diff != "" || got.Title != "Ship it" {
					w.Errorf("-want +got\n%s", diff)
				}
			})
		})
	}
}

// A field that is renamed is followed, one that is removed is empty, and nothing else
// depends on it; it is used again once it is back.
func TestFieldsThatChange(t *testing.T) {
	inWorld(t, func(w *world) {
		edit := func(schema map[string]any) {
			w.Helper()
			if err := w.emulator.EditSchema(w.databases.Tasks, schema); err != nil {
				w.Fatal(err)
			}
		}
		edit(map[string]any{"Sprint": of("number")})
		schema := notion.TaskSchema{Fields: []string{"Sprint"}}
		tasks := w.tasks(schema)
		id := w.page(props{"Name": title("Ship it"), "Sprint": number(42)})
		query := func() any {
			w.Helper()
			rows, _, err := tasks.Query(w.Context(), notion.Query{})
			if err != nil || len(rows) != 1 {
				w.Fatal(rows, err)
			}
			if tasks.Broken() != nil {
				w.Error(tasks.Broken())
			}
			return rows[0].Fields["Sprint"]
		}
		edit(map[string]any{"Sprint": props{"name": "Iteration"}})
		for range 2 {
			if got := query(); got != 42.0 {
				w.Errorf("renamed: %v", got)
			}
			if err := tasks.Check(w.Context()); err != nil || len(tasks.Warnings()) != 0 {
				w.Error(err, tasks.Warnings())
			}
		}
		var err error
		schema.Known = tasks.Known()
		if tasks, err = w.client.RecallTasks(w.databases.Tasks, schema); err != nil || len(tasks.Warnings()) != 0 {
			w.Error(err, tasks.Warnings())
		}
		if got := query(); got != 42.0 {
			w.Errorf("after a restart: %v", got)
		}

		edit(map[string]any{"Iteration": nil})
		for range 3 { // a row tells, then the schema is read, once
			w.emulator.ResetRequests()
			if got := query(); got != nil {
				w.Errorf("removed: %v", got)
			}
		}
		if n := len(w.emulator.Requests()); n != 1 {
			w.Errorf("%d requests for a query, long after a field was removed", n)
		}
		if warnings := tasks.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], `property "Sprint" of tasks.fields is missing`) {
			w.Error(warnings)
		}
		if got := w.get(tasks, id); got.Fields["Sprint"] != nil || got.Title == "" {
			w.Errorf("removed: %+v", got)
		}

		edit(map[string]any{"Sprint": of("number")})
		if err := tasks.Check(w.Context()); err != nil || len(tasks.Warnings()) != 0 {
			w.Error(err, tasks.Warnings())
		}
		if err := w.emulator.EditPage(string(id), props{"Sprint": number(43)}); err != nil {
			w.Fatal(err)
		}
		if got := query(); got != 43.0 {
			w.Errorf("made anew: %v", got)
		}
		edit(map[string]any{"Sprint": of("rich_text")}) // which empties it
		if err := w.emulator.EditPage(string(id), props{"Sprint": richText("44")}); err != nil {
			w.Fatal(err)
		}
		if got := query(); got != "44" {
			w.Errorf("of another type: %v", got)
		}

		if err := tasks.SetFields(w.Context(), []string{"priority", "Sprint"}); err != nil {
			w.Fatal(err)
		}
		if got := w.get(tasks, id).Fields; len(got) != 2 || got["Sprint"] != "44" {
			w.Errorf("with another field: %v", got)
		}
	})
}

// Rows that never show a field have the schema read once, not again and again.
func TestFieldThatNoRowShows(t *testing.T) {
	inWorld(t, func(w *world) {
		if err := w.emulator.EditSchema(w.databases.Tasks, map[string]any{"Sprint": of("number")}); err != nil {
			w.Fatal(err)
		}
		w.page(props{"Name": title("Ship it"), "Sprint": number(42)})
		w.answering("/query", func(body map[string]any) {
			for _, row := range body["results"].([]any) {
				delete(row.(map[string]any)["properties"].(map[string]any), "Sprint")
			}
		})
		tasks := w.tasks(notion.TaskSchema{Fields: []string{"Sprint"}})
		w.emulator.ResetRequests()
		for range 5 {
			rows, _, err := tasks.Query(w.Context(), notion.Query{})
			if err != nil || len(rows) != 1 || rows[0].Fields["Sprint"] != nil || rows[0].Title != "Ship it" {
				w.Error(rows, err)
			}
		}
		if n := len(w.emulator.Requests()); n != 6 {
			w.Errorf("%d requests for five queries, want one for the schema beside them", n)
		}
	})
}
