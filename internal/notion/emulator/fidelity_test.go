package emulator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// Notion's observed answer for a database made without a title.
func TestCreatedDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(61*time.Second + 234*time.Millisecond)
		a, dbs := seeded(t, "empty")
		home := at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "parent", "page_id")
		a26 := a.as("2026-03-11")
		made := a26.ok("POST", "/v1/databases", object{
			"parent":              object{"type": "page_id", "page_id": home},
			"initial_data_source": object{"properties": object{"Name": object{"title": object{}}}},
		})
		if at(made, "title", 0, "plain_text") != "New database" || at(made, "data_sources", 0, "name") != "New database" {
			t.Errorf("made without a title: %v", made)
		}
		if _, ok := made["created_by"]; ok || made["last_edited_by"] != nil || made["is_locked"] != false {
			t.Errorf("made: %v", made)
		}
		path := "/v1/databases/" + made["id"].(string)
		if got := a26.ok("PATCH", path, object{"is_locked": true}); got["is_locked"] != true {
			t.Errorf("locked: %v", got)
		}
		source := a26.ok("GET", "/v1/data_sources/"+at(made, "data_sources", 0, "id").(string), nil)
		for _, key := range []string{"created_time", "last_edited_time"} {
			if got := source[key]; got != "2000-01-01T00:01:00.000Z" {
				t.Errorf("%s of the data source is %v", key, got)
			}
		}
		if source["created_by"] == nil {
			t.Error("the data source does not say who made it")
		}
	})
}

func TestLockedPages(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	if got := a.ok("PATCH", pathPages+"/"+id, object{"is_locked": true}); got["is_locked"] != true {
		t.Errorf("locked: %v", got)
	}
	if got := a.ok("PATCH", pathPages+"/"+id, object{"is_archived": true}); got["is_archived"] != true || got["is_locked"] != true {
		t.Errorf("archived: %v", got)
	}
	if got := a.ok("PATCH", pathPages+"/"+id, object{"is_locked": false, "is_archived": false}); got["is_locked"] != false || got["is_archived"] != false {
		t.Errorf("unlocked: %v", got)
	}
}

func TestSchemasOfUniqueIDsAndRollups(t *testing.T) {
	a, dbs := seeded(t, "empty")
	if err := a.e.EditSchema(dbs.MeshLog, object{
		"Number": object{"unique_id": object{}},
		"Work":   object{"relation": object{"database_id": dbs.Tasks, "single_property": object{}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := a.e.EditSchema(dbs.MeshLog, object{"Latest": object{"rollup": object{
		"relation_property_name": "Work", "rollup_property_name": "claimed_at", "function": "latest_date",
	}}}); err != nil {
		t.Fatal(err)
	}
	schema := a.ok("GET", "/v1/databases/"+dbs.MeshLog, nil)["properties"].(object)
	if diff := cmp.Diff(object{"prefix": nil}, at(schema, "Number", "unique_id")); diff != "" {
		t.Errorf("unique_id (-want +got):\n%s", diff)
	}
	tasks := a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["properties"].(object)
	want := object{
		"relation_property_name": "Work", "relation_property_id": unescaped(t, at(schema, "Work", "id")),
		"rollup_property_name": "claimed_at", "rollup_property_id": unescaped(t, at(tasks, "claimed_at", "id")), "function": "latest_date",
	}
	if diff := cmp.Diff(want, at(schema, "Latest", "rollup")); diff != "" {
		t.Errorf("rollup (-want +got):\n%s", diff)
	}
}

// unescaped returns an id without escapes, which most answers add.
func unescaped(t *testing.T, id any) string {
	t.Helper()
	raw, err := url.QueryUnescape(id.(string))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCommentsSayWhoseTheyAre(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	own := object{"parent": object{"page_id": id}, "rich_text": list{object{"text": object{"content": "Hello"}}}}
	named := object{
		"parent": object{"page_id": id}, "rich_text": own["rich_text"],
		"display_name": object{"type": "custom", "custom": object{"name": "Sandman"}},
	}
	for want, body := range map[string]object{"dibs": own, "Sandman": named} {
		if got := a.ok("POST", "/v1/comments", body); at(got, "display_name", "resolved_name") != want {
			t.Errorf("display_name is %v, want %s", got["display_name"], want)
		}
	}
	kinds := map[any]any{}
	for _, c := range a.ok("GET", "/v1/comments?block_id="+id, nil)["results"].(list) {
		kinds[at(c, "display_name", "resolved_name")] = at(c, "display_name", "type")
	}
	if diff := cmp.Diff(map[any]any{"dibs": "integration", "Sandman": "custom"}, kinds); diff != "" {
		t.Errorf("display names (-want +got):\n%s", diff)
	}
	named["display_name"] = object{"type": "custom"}
	a.refused("POST", "/v1/comments", named, badRequest, validation, "")
}

// A UUID has one of four digits in one place; only the nil UUID does not.
func TestUUIDsOfNoVariant(t *testing.T) {
	a := start(t, emulator.Options{})
	for _, id := range []string{"12345678-1234-1234-1234-123456789abc", "123456781234123412341234567890ab"} {
		a.refused("GET", "/v1/pages/"+id, nil, badRequest, validation,
			"path failed validation: path.page_id should be a valid uuid, instead was `\""+id+"\"`.")
	}
	for _, id := range []string{nobody, "745e79dd-3e43-40de-9d51-39357c1c428f", "745E79DD3E43F0DE9D5139357C1C428F"} {
		a.refused("GET", "/v1/pages/"+id, nil, http.StatusNotFound, "object_not_found", "")
	}
}

func TestWhoSendsNoToken(t *testing.T) {
	a := start(t, emulator.Options{})
	for header, want := range map[string]string{
		"":             `Authorization header must use the format "Bearer <token>".`,
		"Basic YTpi":   `Authorization header must use the format "Bearer <token>".`,
		"Bearer ":      `Authorization header must use the format "Bearer <token>".`,
		"Bearer wrong": "API token is invalid.",
		"bearer wrong": "API token is invalid.",
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://api.notion.com/v1/users/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = []string{header}
		if header == "" {
			delete(req.Header, "Authorization")
		}
		res, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		if err := res.Write(&body); err != nil {
			t.Fatal(err)
		}
		if want = strings.ReplaceAll(want, `"`, `\"`); res.StatusCode != http.StatusUnauthorized || !strings.Contains(body.String(), want) {
			t.Errorf("%q: %s", header, body.String())
		}
	}
}

// Pages show the requested properties, by their ids escaped once.
func TestFilterPropertiesOfPages(t *testing.T) {
	a, dbs := seeded(t, "empty")
	if err := a.e.EditSchema(dbs.Tasks, object{"Odd": object{"number": object{}}}); err != nil {
		t.Fatal(err)
	}
	// Ids that need no escapes are the same escaped once or twice.
	var id string
	for !strings.Contains(id, "%") {
		if err := a.e.EditSchema(dbs.Tasks, object{"Odd": nil}); err != nil {
			t.Fatal(err)
		}
		if err := a.e.EditSchema(dbs.Tasks, object{"Odd": object{"number": object{}}}); err != nil {
			t.Fatal(err)
		}
		id = at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", "Odd", "id").(string)
	}
	page := a.row(dbs.Tasks, nil)
	query := "/v1/databases/" + dbs.Tasks + "/query"
	requests := []struct {
		method, path string
		body         any
		show         func(object) any
	}{
		{"GET", pathPages + "/" + page, nil, func(o object) any { return o["properties"] }},
		{"PATCH", pathPages + "/" + page, object{}, func(o object) any { return o["properties"] }},
		{"POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}}, func(o object) any { return o["properties"] }},
		{"POST", query, object{}, func(o object) any { return at(o, "results", 0, "properties") }},
	}
	for _, r := range requests {
		for _, parameter := range []string{"filter_properties", "filter_properties%5B%5D", "filter_properties[]"} {
			got := r.show(a.ok(r.method, r.path+"?"+parameter+"="+id+"&"+parameter+"=title", r.body)).(object)
			if len(got) != 2 || got["Odd"] == nil || got["Name"] == nil {
				t.Errorf("%s %s, %s: %v", r.method, r.path, parameter, got)
			}
			twice := url.QueryEscape(id)
			a.refused(r.method, r.path+"?"+parameter+"="+twice, r.body, badRequest, validation, "Could not find property with name or id: "+id)
		}
	}
	a.ok("GET", pathPages+"/"+page+"/properties/"+id, nil)
	a.refused("GET", pathPages+"/"+page+"/properties/"+url.PathEscape(id), nil, http.StatusNotFound, "object_not_found", "")
}

func TestRelationsOfLaterVersions(t *testing.T) {
	a, dbs := seeded(t, "empty")
	source := a.sourceOf(dbs.Tasks)
	for _, version := range []string{"2025-09-03", "2026-03-11"} {
		later := a.as(version)
		relate := func(to object) object {
			to["single_property"] = object{}
			return object{"properties": object{"Beside": object{"relation": to}}}
		}
		later.refused("PATCH", "/v1/data_sources/"+source, relate(object{"database_id": dbs.Tasks}), badRequest, validation, "")
		later.refused("PATCH", "/v1/data_sources/"+source, relate(object{}), badRequest, validation, "")
		later.ok("PATCH", "/v1/data_sources/"+source, relate(object{"data_source_id": source}))
	}
	a.ok("PATCH", "/v1/databases/"+dbs.Tasks, object{"properties": object{"Old": object{"relation": object{"database_id": dbs.Tasks, "single_property": object{}}}}})
}

func TestFiltersThatNotionTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		if err := a.e.EditSchema(dbs.Tasks, object{"Owner": object{"people": object{}}, "By": object{"created_by": object{}}}); err != nil {
			t.Fatal(err)
		}
		me := a.ok("GET", "/v1/users/me", nil)["id"]
		day := func(s string) object { return object{"date": object{"start": s}} }
		a.row(dbs.Tasks, object{"Name": title("mine"), "Owner": object{"people": list{object{"id": me}}}, "claimed_at": day("2000-01-01")})
		a.row(dbs.Tasks, object{"Name": title("older"), "status": status("BLOCKED"), "claimed_at": day("1999-12-31")})
		a.row(dbs.Tasks, object{"Name": title("done"), "status": status("COMPLETED")})
		for _, c := range []struct {
			property, kind, operator string
			value                    any
			want                     []string
		}{
			{"status", "status", "does_not_equal", list{"COMPLETED", "BLOCKED"}, []string{"mine"}},
			{"status", "status", "does_not_equal", "COMPLETED", []string{"mine", "older"}},
			{"claimed_at", "date", "equals", "today", []string{"mine"}},
			{"claimed_at", "date", "before", "today", []string{"older"}},
			{"claimed_at", "date", "on_or_after", "yesterday", []string{"mine", "older"}},
			{"claimed_at", "date", "after", "tomorrow", []string{}},
			{"Owner", "people", "contains", "me", []string{"mine"}},
			{"Owner", "people", "does_not_contain", "me", []string{"done", "older"}},
			{"By", "created_by", "contains", "me", []string{}},
		} {
			got := a.query(dbs.Tasks, object{
				"filter": object{"property": c.property, c.kind: object{c.operator: c.value}},
				"sorts":  list{object{"property": "Name", "direction": "ascending"}},
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s %s %v (-want +got):\n%s", c.property, c.operator, c.value, diff)
			}
		}
	})
}

// No version accepts in_trash in a query. Archived rows can be queried.
func TestTrashInQueries(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.row(dbs.Tasks, object{"Name": title("task")})
	a.ok("PATCH", pathPages+"/"+a.row(dbs.Tasks, object{"Name": title("kept")}), object{"is_archived": true})
	for archived, want := range map[bool]string{false: "task", true: "kept"} {
		if diff := cmp.Diff([]string{want}, a.query(dbs.Tasks, object{"is_archived": archived})); diff != "" {
			t.Errorf("archived %v (-want +got):\n%s", archived, diff)
		}
	}
	a.refused("POST", "/v1/databases/"+dbs.Tasks+"/query", object{"is_archived": "yes"}, badRequest, validation, "")
	source := a.sourceOf(dbs.Tasks)
	says := "body failed validation: body.in_trash should be not present, instead was `true`."
	a.refused("POST", "/v1/databases/"+dbs.Tasks+"/query", object{"in_trash": true}, badRequest, validation, says)
	for _, version := range []string{"2025-09-03", "2026-03-11"} {
		a.as(version).refused("POST", "/v1/data_sources/"+source+"/query", object{"in_trash": true}, badRequest, validation, says)
	}
}
