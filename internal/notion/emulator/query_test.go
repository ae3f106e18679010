package emulator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// query returns the titles of the first page of results.
func (a *api) query(db string, body object) []string {
	a.t.Helper()
	return titles(a.ok("POST", "/v1/databases/"+db+"/query", body))
}

func titles(answer object) []string {
	out := []string{}
	for _, r := range answer["results"].(list) {
		for _, p := range at(r, "properties").(object) {
			if at(p, "type") == "title" {
				s, _ := at(p, "title", 0, "plain_text").(string)
				out = append(out, s)
			}
		}
	}
	return out
}

// numbered makes n rows titled 001, 002, … and returns their ids.
func (a *api) numbered(db string, n int) []string {
	ids := make([]string, n)
	for i := range n {
		ids[i] = a.row(db, object{"Name": title(fmt.Sprintf("%03d", i+1))})
	}
	return ids
}

// all returns the titles of all pages of a query, and calls between after each page.
func (a *api) all(db string, body object, between func()) []string {
	a.t.Helper()
	var out []string
	for {
		got := a.ok("POST", "/v1/databases/"+db+"/query", body)
		out = append(out, titles(got)...)
		if got["has_more"] != true {
			if got["next_cursor"] != nil {
				a.t.Errorf("the last page has the cursor %v", got["next_cursor"])
			}
			return out
		}
		body["start_cursor"] = got["next_cursor"]
		if between != nil {
			between()
		}
	}
}

func TestQueryShape(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for version, kind := range map[string]string{"2022-06-28": "page_or_database", "2025-09-03": "page_or_data_source"} {
		path := "/v1/databases/" + dbs.Tasks + "/query"
		if version != "2022-06-28" {
			source := at(a.as(version).ok("GET", "/v1/databases/"+dbs.Tasks, nil), "data_sources", 0, "id").(string)
			path = "/v1/data_sources/" + source + "/query"
		}
		got := a.as(version).ok("POST", path, nil)
		delete(got, "request_id")
		want := object{"object": "list", "results": list{}, "has_more": false, "next_cursor": nil, "type": kind, kind: object{}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

func TestQueriesArePaged(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.numbered(dbs.Tasks, 205)
	byName := list{object{"property": "Name", "direction": "ascending"}}

	got := a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{"sorts": byName})
	if n := len(titles(got)); n != 100 || got["has_more"] != true {
		t.Errorf("first page has %d rows, has_more %v", n, got["has_more"])
	}
	for _, sorts := range []list{byName, {}} {
		rows := a.all(dbs.Tasks, object{"sorts": sorts, "page_size": 50}, nil)
		seen := map[string]bool{}
		for _, r := range rows {
			seen[r] = true
		}
		if len(rows) != 205 || len(seen) != 205 {
			t.Errorf("sorts %v: %d rows, %d of them different, want 205", sorts, len(rows), len(seen))
		}
	}
}

// Rows that change between two pages of a query neither hide nor repeat others.
func TestCursorsSurviveEdits(t *testing.T) {
	a, dbs := seeded(t, "empty")
	ids := a.numbered(dbs.Tasks, 30)
	open := object{"property": "status", "status": object{"equals": "OPEN"}}
	for name, sorts := range map[string]list{
		"unsorted": {},
		"by name":  {object{"property": "Name", "direction": "ascending"}},
	} {
		changed := 0
		rows := a.all(dbs.Tasks, object{"filter": open, "sorts": sorts, "page_size": 10}, func() {
			// Every row of the first page stops matching.
			if changed == 0 {
				for i, id := range ids {
					if first := (len(sorts) == 0) == (i >= 20); first && (len(sorts) == 0 || i < 10) {
						a.setStatus(id, "COMPLETED")
						changed++
					}
				}
			}
		})
		if changed != 10 || len(rows) != 30 {
			t.Errorf("%s: %d rows changed, %d were given, want 10 and all 30", name, changed, len(rows))
		}
		for _, id := range ids {
			a.setStatus(id, "OPEN")
		}
	}
}

// The cursor has the last row's version of that time: the cursor does not follow a later change of
// the row's order.
func TestCursorsSurviveReordering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, db, _ := full(t)
		ids := map[string]string{}
		for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
			ids[name] = a.row(db, object{"Name": title(name), "Number": object{"number": i}})
		}
		rows := a.all(db, object{"sorts": list{object{"property": "Number", "direction": "ascending"}}, "page_size": 2}, func() {
			time.Sleep(time.Second)
			if err := a.e.EditPage(ids["b"], object{"Number": object{"number": 99}}); err != nil {
				t.Fatal(err)
			}
		})
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "b"}, rows); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func (a *api) setStatus(id, status string) {
	a.t.Helper()
	if err := a.e.EditPage(id, object{"status": object{"status": object{"name": status}}}); err != nil {
		a.t.Fatal(err)
	}
}

func TestQueriesEndAtTenThousandRows(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	a, dbs := seeded(t, "empty")
	ids := a.numbered(dbs.Tasks, 10_001)
	path := "/v1/databases/" + dbs.Tasks + "/query?filter_properties=title"
	var last object
	var cursor any // the last page's
	rows := 0
	for last == nil || last["has_more"] == true {
		cursor = at(last, "next_cursor")
		last = a.ok("POST", path, object{"start_cursor": cursor})
		rows += len(last["results"].(list))
	}
	if rows != 10_000 || last["next_cursor"] != nil {
		t.Errorf("%d rows, the last page's cursor is %v", rows, last["next_cursor"])
	}
	want := object{"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
	if diff := cmp.Diff(want, last["request_status"]); diff != "" {
		t.Errorf("request_status (-want +got):\n%s", diff)
	}
	// With one row fewer the answer is complete.
	if err := a.e.TrashPage(ids[0]); err != nil {
		t.Fatal(err)
	}
	last = a.ok("POST", path, object{"start_cursor": cursor})
	if last["request_status"] != nil || last["has_more"] != false {
		t.Errorf("request_status of exactly 10,000 rows is %v", last["request_status"])
	}
}

func TestQueriesLeaveOutTheTrash(t *testing.T) {
	a, dbs := seeded(t, "empty")
	ids := a.numbered(dbs.Tasks, 3)
	if err := a.e.TrashPage(ids[1]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"003", "001"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"002"}, a.query(dbs.Tasks, object{"archived": true})); diff != "" {
		t.Errorf("rows in the trash (-want +got):\n%s", diff)
	}
}

func TestFilterProperties(t *testing.T) {
	a, db, _ := full(t)
	a.row(db, object{"Name": title("Row")})
	schema := a.ok("GET", "/v1/databases/"+db, nil)["properties"].(object)
	query := "?filter_properties=title"
	for _, name := range []string{"Date", "Place"} {
		query += "&filter_properties=" + at(schema, name, "id").(string)
	}
	page := a.e.Pages(db)[0].ID
	for _, got := range []any{
		at(a.ok("POST", "/v1/databases/"+db+"/query"+query, object{}), "results", 0, "properties"),
		a.ok("GET", pathPages+"/"+page+query, nil)["properties"],
	} {
		var names []string
		for _, name := range []string{"Date", "Name", "Place", "Text"} {
			if at(got, name) != nil {
				names = append(names, name)
			}
		}
		if diff := cmp.Diff([]string{"Date", "Name", "Place"}, names); diff != "" || len(got.(object)) != 3 {
			t.Errorf("properties are %v", got)
		}
	}
}

func TestSorts(t *testing.T) {
	a, db, dbs := full(t)
	tasks := a.e.Pages(dbs.Tasks)
	a.row(db, object{
		"Name": title("b"), "Number": object{"number": 10}, "Select": object{"select": object{"name": "blue"}}, "Check": object{"checkbox": true},
		"Status": object{"status": object{"name": "DONE"}}, "Date": object{"date": object{"start": "2026-02-01"}}, "Text": text("Zebra"),
		"Relation": object{"relation": list{object{"id": tasks[0].ID}, object{"id": tasks[1].ID}}}, "Multi": object{"multi_select": list{object{"name": "b"}}},
		"Formula": object{"formula": object{"type": "number", "number": 1}},
	})
	a.row(db, object{
		"Name": title("A"), "Number": object{"number": 9}, "Select": object{"select": object{"name": "red"}},
		"Status": object{"status": object{"name": "DOING"}}, "Date": object{"date": object{"start": "2026-01-31T23:59:00Z"}}, "Text": text("apple"),
		"Relation": object{"relation": list{object{"id": tasks[0].ID}}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
		"Formula": object{"formula": object{"type": "number", "number": 3}},
	})
	a.row(db, object{"Name": title("c")})
	for _, c := range []struct {
		sort      object
		asc, desc string
	}{
		{object{"property": "Name"}, "Abc", "cbA"},
		{object{"property": "Number"}, "Abc", "bAc"}, // empty values come last both ways
		{object{"property": "Select"}, "Abc", "bAc"},
		{object{"property": "Status"}, "cAb", "bAc"},
		{object{"property": "Multi"}, "Abc", "bAc"},
		{object{"property": "Check"}, "cAb", "bcA"},
		{object{"property": "Date"}, "Abc", "bAc"},
		{object{"property": "Text"}, "Abc", "bAc"},
		{object{"property": "Relation"}, "Abc", "bAc"},
		{object{"property": "Formula"}, "bAc", "Abc"},
		{object{"property": "ID"}, "bAc", "cAb"},
		{object{"property": "Maker"}, "cAb", "cAb"}, // all equal: newest first
		{object{"timestamp": "created_time"}, "cAb", "cAb"},
		{object{"timestamp": "last_edited_time"}, "cAb", "cAb"},
	} {
		for direction, want := range map[string]string{"ascending": c.asc, "descending": c.desc} {
			c.sort["direction"] = direction
			got := ""
			for _, s := range a.query(db, object{"sorts": list{c.sort}}) {
				got += s
			}
			if got != want {
				t.Errorf("%v: %s, want %s", c.sort, got, want)
			}
		}
	}
	two := list{object{"property": "Check", "direction": "descending"}, object{"property": "Name", "direction": "ascending"}}
	if diff := cmp.Diff([]string{"b", "A", "c"}, a.query(db, object{"sorts": two})); diff != "" {
		t.Errorf("two sorts (-want +got):\n%s", diff)
	}
}

func TestQueryRefusals(t *testing.T) {
	a, db, _ := full(t)
	const body = "body failed validation: body."
	status := object{"property": "Status", "status": object{"equals": "OPEN"}}
	nested := func(depth int) object {
		f := status
		for range depth {
			f = object{"and": list{f}}
		}
		return f
	}
	for _, c := range []struct {
		name    string
		body    object
		message string
	}{
		{"unknown member", object{"filter_properties": list{"title"}}, body + "filter_properties should be not present, instead was `[\"title\"]`."},
		{"page size as text", object{"page_size": "10"}, body + "page_size should be a number or `undefined`, instead was `\"10\"`."},
		{"page size of a fraction", object{"page_size": 1.5}, body + "page_size should be a number or `undefined`, instead was `1.5`."},
		{"page size too large", object{"page_size": 101}, body + "page_size should be ≤ `100`, instead was `101`."},
		{"page size too small", object{"page_size": 0}, body + "page_size should be ≥ `1`, instead was `0`."},
		{"bad cursor", object{"start_cursor": "nope"}, "The start_cursor provided is invalid: nope"},
		{"cursor as a number", object{"start_cursor": 1}, body + "start_cursor should be a string, instead was `1`."},
		{"unknown sort property", object{"sorts": list{object{"property": "Colour", "direction": "ascending"}}}, "Could not find sort property with name or id: Colour"},
		{"unknown direction", object{"sorts": list{object{"property": "Name", "direction": "up"}}},
			body + "sorts[0].direction should be `\"ascending\"` or `\"descending\"`, instead was `\"up\"`."},
		{"sorts that are no list", object{"sorts": object{}}, body + "sorts should be an array or `undefined`, instead was `{}`."},
		{"filter that is no object", object{"filter": list{}}, body + "filter should be an object or `undefined`, instead was `[]`."},
		{"unknown filter property", object{"filter": object{"property": "Colour", "select": object{"equals": "red"}}}, "Could not find property with name or id: Colour"},
		{"filter of another type", object{"filter": object{"property": "Select", "status": object{"equals": "red"}}},
			"The property type in the database does not match the property type of the filter provided: database property select does not match filter status"},
		{"filter without a condition", object{"filter": object{"property": "Name"}}, body + "filter.rich_text should be defined, instead was `undefined`."},
		{"unknown condition", object{"filter": object{"property": "Name", "text": object{"equals": "x"}}}, body + "filter.text should be not present, instead was `{\"equals\":\"x\"}`."},
		{"two conditions", object{"filter": object{"property": "Name", "rich_text": object{"equals": "x"}, "title": object{"equals": "x"}}},
			body + "filter.title should be not present, instead was `{\"equals\":\"x\"}`."},
		{"no operator", object{"filter": object{"property": "Check", "checkbox": object{}}}, body + "filter.checkbox.equals should be defined, instead was `undefined`."},
		{"unknown operator", object{"filter": object{"property": "Status", "status": object{"contains": "x"}}}, body + "filter.status.contains should be not present, instead was `\"x\"`."},
		{"two operators", object{"filter": object{"property": "Number", "number": object{"less_than": 1, "greater_than": 0}}},
			body + "filter.number.less_than should be not present, instead was `1`."},
		{"is_empty: false", object{"filter": object{"property": "Name", "title": object{"is_empty": false}}}, body + "filter.title.is_empty should be `true`, instead was `false`."},
		{"unknown option", object{"filter": object{"property": "Status", "status": object{"equals": "GONE"}}},
			`status option "GONE" not found for property "Status". Available options: "OPEN", "DOING", "DONE".`},
		{"unknown option in a list", object{"filter": object{"property": "Select", "select": object{"equals": list{"red", "gone"}}}},
			`select option "gone" not found for property "Select". Available options: "red", "blue".`},
		{"bad date", object{"filter": object{"property": "Date", "date": object{"after": "soon"}}}, body + "filter.date.after should be a valid ISO 8601 date string, instead was `\"soon\"`."},
		{"relation without a uuid", object{"filter": object{"property": "Relation", "relation": object{"contains": "x"}}}, body + "filter.relation.contains should be a valid uuid, instead was `\"x\"`."},
		{"unknown timestamp", object{"filter": object{"timestamp": "deleted_time", "deleted_time": object{}}},
			body + "filter.timestamp should be `\"created_time\"` or `\"last_edited_time\"`, instead was `\"deleted_time\"`."},
		{"nested three deep", object{"filter": nested(3)}, body + "filter.and[0].and[0].and should be not present, instead was `[{\"property\":\"Status\",\"status\":{\"equals\":\"OPEN\"}}]`."},
		{"deep inside", object{"filter": object{"or": list{status, object{"and": list{object{"property": "Colour", "select": object{"equals": "x"}}}}}}},
			"Could not find property with name or id: Colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.in(t).refused("POST", "/v1/databases/"+db+"/query", c.body, badRequest, validation, c.message)
		})
	}
	a.ok("POST", "/v1/databases/"+db+"/query", object{"filter": nested(2)})
	a.as("2026-03-11").refused("POST", "/v1/data_sources/"+a.sourceOf(db)+"/query", object{"archived": true}, badRequest, validation,
		body+"archived should be not present, instead was `true`.")
}

// sourceOf returns the id of a database's first data source.
func (a *api) sourceOf(db string) string {
	a.t.Helper()
	return at(a.as("2025-09-03").ok("GET", "/v1/databases/"+db, nil), "data_sources", 0, "id").(string)
}
