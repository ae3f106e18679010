package emulator_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"dibs/internal/testkit"
)

// oddities are values of the wrong kind.
var oddities = []any{nil, -1.5, "", "x", true, list{}, list{nil}, object{}, object{"id": nil}}

// With any oddity anywhere, a request succeeds or is refused with a 4xx status, and the server
// still works.
func TestNothingOddBreaksTheServer(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	a, db, dbs := full(t)
	a25 := a.as("2025-09-03")
	source := a.sourceOf(db)
	page := a.row(db, object{"Name": title("Row")})
	task := a.e.Pages(dbs.Tasks)[0].ID
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1, "id")
	block := at(a.ok("PATCH", "/v1/blocks/"+page+"/children", object{"children": list{paragraph("x")}}), "results", 0, "id")
	discussion := a.ok("POST", "/v1/comments", object{"parent": object{"page_id": page}, "rich_text": list{}})["discussion_id"]
	cursor := a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{"page_size": 1})["next_cursor"]
	schema := everything(dbs.Tasks)
	delete(schema, "Strange") // cannot be made
	small := object{"Name": object{"title": object{}}, "Number": object{"number": object{"format": "euro"}}}
	small["Dual"] = object{"relation": object{"database_id": dbs.Tasks, "type": "dual_property", "dual_property": object{"synced_property_name": "Back"}}}
	small25 := object{"Name": small["Name"], "Number": small["Number"]}
	small25["Dual"] = object{"relation": object{"data_source_id": a.sourceOf(dbs.Tasks), "type": "dual_property", "dual_property": object{"synced_property_name": "Back"}}}
	schema["Status"] = object{"type": "status", "status": object{
		"options": list{object{"name": "a", "color": "red", "id": "1"}}, "groups": list{object{"name": "g", "color": "blue", "option_ids": list{"1"}}},
	}}
	values := object{
		"Name": title("x"), "Text": object{"rich_text": list{
			object{"text": object{"content": "x", "link": object{"url": "https://example.com"}}, "annotations": object{"bold": true, "color": "red"}},
			object{"mention": object{"user": object{"id": maria}}}, object{"mention": object{"page": object{"id": task}}},
			object{"mention": object{"date": object{"start": "2026-01-01", "end": nil, "time_zone": nil}}}, object{"equation": object{"expression": "x"}},
		}},
		"Number": object{"number": 1}, "Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
		"Status": object{"status": object{"name": "OPEN"}}, "Date": object{"date": object{"start": "2026-01-01T00:00:00", "end": "2026-01-02", "time_zone": "Europe/Paris"}},
		"People": object{"people": list{object{"id": maria}}}, "Check": object{"checkbox": true}, "URL": object{"url": "x"}, "Email": object{"email": "x"},
		"Phone": object{"phone_number": "x"}, "Relation": object{"relation": list{object{"id": task}}},
		"Files": object{"files": list{object{"name": "f", "external": object{"url": "x"}}, object{"name": "g", "file": object{"url": "x"}}}},
	}
	date := object{"property": "Date", "date": object{"on_or_after": "2026-01-01"}}
	filters := list{
		date, object{"property": "Text", "rich_text": object{"contains": "x"}}, object{"property": "Number", "number": object{"less_than": 1}},
		object{"property": "Check", "checkbox": object{"equals": true}}, object{"property": "Select", "select": object{"equals": list{"red"}}},
		object{"property": "Multi", "multi_select": object{"contains": "a"}}, object{"property": "People", "people": object{"contains": maria}},
		object{"property": "Files", "files": object{"is_empty": true}}, object{"property": "Formula", "formula": object{"string": object{"equals": "x"}}},
		object{"property": "Rollup", "rollup": object{"number": object{"equals": 1}}}, object{"property": "Verified", "verification": object{"status": "none"}},
		object{"timestamp": "created_time", "created_time": object{"past_week": object{}}}, object{"or": list{date}},
	}
	query := object{
		"filter": object{"and": filters}, "sorts": list{object{"property": "Name", "direction": "ascending"}, object{"timestamp": "created_time", "direction": "ascending"}},
		"page_size": 10, "start_cursor": cursor, "archived": false,
	}
	blocks := list{object{"paragraph": object{"rich_text": list{}, "color": "red", "children": list{object{"divider": object{}}}}, "children": list{paragraph("x")}}}
	text := list{object{"text": object{"content": "x"}}}
	icon := object{"type": "emoji", "emoji": "x"}
	for _, c := range []struct {
		api          *api
		method, path string
		body         object
	}{
		{a, "POST", "/v1/pages", object{"parent": object{"database_id": db}, "properties": values, "children": blocks, "icon": icon, "cover": nil}},
		{a25, "POST", "/v1/pages", object{"parent": object{"data_source_id": source, "page_id": task, "workspace": false}}},
		{a, "PATCH", "/v1/pages/" + page, object{"properties": values, "archived": false, "in_trash": false, "is_archived": false, "icon": icon, "cover": nil}},
		{a, "POST", "/v1/databases/" + db + "/query", query},
		{a25, "POST", "/v1/data_sources/" + source + "/query", query},
		{a, "POST", "/v1/databases", object{"parent": object{"page_id": page}, "title": text, "description": text, "properties": schema, "is_inline": true, "icon": icon}},
		{a25, "POST", "/v1/databases", object{"parent": object{"type": "page_id", "page_id": page}, "initial_data_source": object{"properties": small25}}},
		{a, "POST", "/v1/databases", object{"parent": object{"page_id": page}, "properties": small}},
		{a, "PATCH", "/v1/databases/" + db, object{"title": text, "properties": object{"Status": schema["Status"], "Select": schema["Select"]}, "archived": false}},
		{a25, "POST", "/v1/data_sources", object{"parent": object{"database_id": db}, "title": text, "properties": small25}},
		{a25, "PATCH", "/v1/data_sources/" + source, object{"title": text, "properties": object{"New": object{"name": "New", "number": object{"format": "euro"}}}, "in_trash": false}},
		{a, "PATCH", "/v1/blocks/" + page + "/children", object{"children": blocks, "after": block, "position": object{"type": "after_block", "after_block": object{"id": block}}}},
		{a, "POST", "/v1/comments", object{"parent": object{"page_id": page, "block_id": block}, "rich_text": text}},
		{a, "POST", "/v1/comments", object{"discussion_id": discussion, "rich_text": text}},
		{a, "POST", "/v1/search", object{"query": "x", "filter": object{"property": "object", "value": "page"}, "sort": object{"timestamp": "last_edited_time", "direction": "ascending"}, "page_size": 1}},
	} {
		n := 0
		mutate(c.body, func(where string) {
			if n++; n == 1 {
				c.api.ok(c.method, c.path, c.body)
			}
			r, err := c.api.send(c.method, c.path, c.body)
			if err != nil {
				t.Fatalf("%s %s with %s: %v", c.method, c.path, where, err)
			}
			if r.status != 200 && (r.status < 400 || r.status > 499 || r.body["code"] == nil) {
				t.Errorf("%s %s with %s: status %d: %s", c.method, c.path, where, r.status, r.text)
			}
		})
		c.api.ok(c.method, c.path, c.body) // works as before, and undoes the odd requests
		if n < 10 {
			t.Errorf("%s %s: only %d requests", c.method, c.path, n)
		}
	}
	a.ok("GET", "/v1/pages/"+page, nil)
	a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)
}

// mutate calls try with v unchanged, and with each oddity in each place of v.
func mutate(v any, try func(where string)) {
	try("nothing odd")
	walk("", v, func(any) {}, try)
}

func walk(path string, v any, set func(any), try func(string)) {
	if path != "" {
		for _, odd := range oddities {
			set(odd)
			data, _ := json.Marshal(odd)
			try(fmt.Sprintf("%s = %s", path, data))
		}
		set(v)
	}
	switch v := v.(type) {
	case object:
		for key, member := range v {
			walk(path+"."+key, member, func(x any) { v[key] = x }, try)
		}
	case list:
		for i, element := range v {
			walk(fmt.Sprintf("%s[%d]", path, i), element, func(x any) { v[i] = x }, try)
		}
	}
}
