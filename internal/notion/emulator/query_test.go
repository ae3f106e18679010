package emulator_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	for _, c := range [][3]string{{"22", "databases/" + dbs.Tasks, "page_or_database"}, {"25", "data_sources/" + a.names["source"], "page_or_data_source"}} {
		got := a.play(c[0] + " POST " + c[1] + "/query")
		delete(got, "request_id")
		same(t, object{"object": "list", "results": list{}, "has_more": false, "next_cursor": nil, "type": c[2], c[2]: object{}}, got, "%s", c[0])
	}
}

// The pages of a query together are all rows in order, with any page size.
func TestQueriesArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		must(t, a.e.AddTasks(98))
		rows := a.e.Pages(dbs.Tasks)
		for i, c := range []object{{"priority": object{"select": nil}}, {"status": status("BLOCKED")}, {"priority": object{"select": nil}}} {
			time.Sleep(time.Minute)
			must(t, a.e.EditPage(rows[40+15*i].ID, c))
		}
		for _, sorts := range []string{
			`[]`, `[{"timestamp":"created_time","direction":"ascending"}]`, `[{"timestamp":"last_edited_time","direction":"descending"}]`,
			`[{"timestamp":"last_edited_time","direction":"ascending"},{"property":"priority","direction":"descending"}]`,
			`[{"property":"priority","direction":"ascending"}]`, `[{"property":"Name","direction":"descending"}]`,
		} {
			var by any
			must(t, json.Unmarshal([]byte(sorts), &by))
			want := a.query(dbs.Tasks, object{"sorts": by})
			if seen := slices.Compact(slices.Sorted(slices.Values(want))); len(want) != 98 || len(seen) != 98 {
				t.Errorf("%s: %d rows, %d of them different", sorts, len(want), len(seen))
			}
			for _, size := range []int{1, 7, 97, 98} {
				same(t, want, a.all(dbs.Tasks, object{"sorts": by, "page_size": size}, nil), "sorted by %s, %d a page", sorts, size)
			}
		}
		a.numbered(dbs.Tasks, 3)
		a.play(`POST databases/$tasks/query | #results = 100 | has_more = true`)
	})
}

// Rows that change between two pages of a query neither hide nor repeat others.
func TestCursorsSurviveEdits(t *testing.T) {
	a, dbs := seeded(t, "empty")
	ids := a.numbered(dbs.Tasks, 30)
	open := object{"property": "status", "status": object{"equals": "OPEN"}}
	for name, c := range map[string]struct {
		sorts list
		first []string // the rows of the first page
	}{
		"unsorted": {list{}, ids[20:]},
		"by name":  {list{object{"property": "Name", "direction": "ascending"}}, ids[:10]},
	} {
		rows := a.all(dbs.Tasks, object{"filter": open, "sorts": c.sorts, "page_size": 10}, func() {
			for _, id := range c.first {
				a.setStatus(id, "COMPLETED")
			}
		})
		if len(rows) != 30 {
			t.Errorf("%s: %d rows were given, want all 30", name, len(rows))
		}
		for _, id := range c.first {
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
			must(t, a.e.EditPage(ids["b"], object{"Number": object{"number": 99}}))
		})
		same(t, []string{"a", "b", "c", "d", "e", "f", "b"}, rows, "rows")
	})
}

func (a *api) setStatus(id, name string) {
	a.t.Helper()
	must(a.t, a.e.EditPage(id, object{"status": status(name)}))
}

func TestQueriesEndAtALimit(t *testing.T) {
	a, dbs := seeded(t, "empty")
	ids := a.numbered(dbs.Tasks, 251)
	must(t, a.e.SetQueryLimit(250))
	a.play(`
POST databases/$tasks/query {} | #results = 100 | $next = next_cursor | request_status = null
POST databases/$tasks/query {"start_cursor":"$next"} | #results = 100 | $last = next_cursor
POST databases/$tasks/query {"start_cursor":"$last"} | #results = 50 | next_cursor = null
	| request_status = {"type":"incomplete","incomplete_reason":"query_result_limit_reached"}`)
	// With one row fewer the answer is complete.
	must(t, a.e.TrashPage(ids[0]))
	a.play(`POST databases/$tasks/query {"start_cursor":"$last"} | #results = 50 | has_more = false | request_status = null`)
}

// Pages show the requested properties, by their ids escaped once.
func TestFilterProperties(t *testing.T) {
	a, dbs := seeded(t, "empty")
	// Ids that need no escapes are the same escaped once or twice.
	for id := ""; !strings.Contains(id, "%"); id = a.names["odd"] {
		must(t, a.e.EditSchema(dbs.Tasks, object{"Odd": object{"place": object{}}}))
		a.play(`GET databases/$tasks | $odd = properties.Odd.id`)
		if !strings.Contains(a.names["odd"], "%") {
			must(t, a.e.EditSchema(dbs.Tasks, object{"Odd": nil}))
		}
	}
	a.names["page"], a.names["twice"] = a.row(dbs.Tasks, nil), url.QueryEscape(a.names["odd"])
	for _, request := range []string{"GET pages/$page?%s", "PATCH pages/$page?%s {}", `POST pages?%s {"parent":{"database_id":"$tasks"}}`, "POST databases/$tasks/query?%s {}"} {
		for _, parameter := range []string{"filter_properties", "filter_properties%5B%5D", "filter_properties[]"} {
			got := a.play(fmt.Sprintf(request, parameter+"=$odd&"+parameter+"=title"))
			if rows, isList := got["results"].(list); isList {
				got = rows[0].(object)
			}
			if got = got["properties"].(object); len(got) != 2 || got["Odd"] == nil || got["Name"] == nil {
				t.Errorf("%s, %s: %v", request, parameter, got)
			}
			a.play(fmt.Sprintf(request, parameter+"=$twice") + " | 400: Could not find property with name or id: $odd")
		}
	}
	a.play("GET pages/$page/properties/$odd\nGET pages/$page/properties/" + url.PathEscape(a.names["odd"]) + " | 404")
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
	same(t, []string{"b", "A", "c"}, a.query(db, object{"sorts": two}), "two sorts")
}

func TestQueryRefusals(t *testing.T) {
	a, _, _ := full(t)
	const open = `{"property":"Status","status":{"equals":"OPEN"}}`
	for body, says := range map[string]string{
		`"filter_properties":["title"]`: `body.filter_properties should be not present, instead was ´["title"]´.`,
		`"page_size":"10"`:              `body.page_size should be a number or ´undefined´, instead was ´"10"´.`,
		`"page_size":1.5`:               "body.page_size should be a number or ´undefined´, instead was ´1.5´.",
		`"page_size":101`:               "body.page_size should be ≤ ´100´, instead was ´101´.",
		`"page_size":0`:                 "body.page_size should be ≥ ´1´, instead was ´0´.",
		`"start_cursor":"nope"`:         "The start_cursor provided is invalid: nope",
		`"start_cursor":1`:              "body.start_cursor should be a string, instead was ´1´.",
		`"sorts":[{"property":"Colour","direction":"ascending"}]`: "Could not find sort property with name or id: Colour",
		`"sorts":[{"property":"Name","direction":"up"}]`:          `body.sorts[0].direction should be ´"ascending"´ or ´"descending"´, instead was ´"up"´.`,
		`"sorts":{}`:  "body.sorts should be an array or ´undefined´, instead was ´{}´.",
		`"filter":[]`: "body.filter should be an object or ´undefined´, instead was ´[]´.",
		`"filter":{"property":"Colour","select":{"equals":"red"}}`: "Could not find property with name or id: Colour",
		`"filter":{"property":"Select","status":{"equals":"red"}}`: "The property type in the database does not match the property type of the filter provided: " +
			"database property select does not match filter status",
		`"filter":{"property":"Name"}`:                                                           "body.filter.rich_text should be defined, instead was ´undefined´.",
		`"filter":{"property":"Name","text":{"equals":"x"}}`:                                     `body.filter.text should be not present, instead was ´{"equals":"x"}´.`,
		`"filter":{"property":"Name","rich_text":{"equals":"x"},"title":{"equals":"x"}}`:         `body.filter.title should be not present, instead was ´{"equals":"x"}´.`,
		`"filter":{"property":"Check","checkbox":{}}`:                                            "body.filter.checkbox.equals should be defined, instead was ´undefined´.",
		`"filter":{"property":"Status","status":{"contains":"x"}}`:                               `body.filter.status.contains should be not present, instead was ´"x"´.`,
		`"filter":{"property":"Number","number":{"less_than":1,"greater_than":0}}`:               "body.filter.number.less_than should be not present, instead was ´1´.",
		`"filter":{"property":"Name","title":{"is_empty":false}}`:                                "body.filter.title.is_empty should be ´true´, instead was ´false´.",
		`"filter":{"property":"Status","status":{"equals":"GONE"}}`:                              `status option "GONE" not found for property "Status". Available options: "OPEN", "DOING", "DONE".`,
		`"filter":{"property":"Select","select":{"equals":["red","gone"]}}`:                      `select option "gone" not found for property "Select". Available options: "red", "blue".`,
		`"filter":{"property":"Date","date":{"after":"soon"}}`:                                   `body.filter.date.after should be a valid ISO 8601 date string, instead was ´"soon"´.`,
		`"filter":{"property":"Relation","relation":{"contains":"x"}}`:                           `body.filter.relation.contains should be a valid uuid, instead was ´"x"´.`,
		`"filter":{"timestamp":"deleted_time","deleted_time":{}}`:                                `body.filter.timestamp should be ´"created_time"´ or ´"last_edited_time"´, instead was ´"deleted_time"´.`,
		`"filter":{"and":[{"and":[{"and":[` + open + `]}]}]}`:                                    "body.filter.and[0].and[0].and should be not present, instead was ´[" + open + "]´.",
		`"filter":{"or":[` + open + `,{"and":[{"property":"Colour","select":{"equals":"x"}}]}]}`: "Could not find property with name or id: Colour",
	} {
		a.play(`POST databases/$db/query {` + body + `} | 400: ` + says)
	}
	a.play(`POST databases/$db/query {"filter":{"and":[{"and":[` + open + `]}]}}
26 POST data_sources/$source/query {"archived":true} | 400: body.archived should be not present, instead was ´true´.`)
}

// sourceOf returns the id of a database's first data source.
func (a *api) sourceOf(db string) string {
	a.t.Helper()
	return at(a.as("2025-09-03").ok("GET", "/v1/databases/"+db, nil), "data_sources", 0, "id").(string)
}
