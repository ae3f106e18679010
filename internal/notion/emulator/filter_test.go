package emulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// Every operator of every condition, on a row "full" with all properties set and a row "empty" with
// none.
func TestFilters(t *testing.T) {
	a, db, dbs := full(t)
	task, other := a.e.Pages(dbs.Tasks)[0].ID, a.e.Pages(dbs.Tasks)[1].ID
	users := a.ok("GET", "/v1/users", nil)
	bot, maria, jonas := at(users, "results", 0, "id"), at(users, "results", 1, "id"), at(users, "results", 2, "id")
	a.row(db, object{
		"Name": title("full"), "Text": text("Hello World"), "Number": object{"number": 5}, "Check": object{"checkbox": true},
		"Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
		"Status": object{"status": object{"name": "DOING"}}, "Date": object{"date": object{"start": "2026-06-27T18:01:15+00:00"}},
		"People": object{"people": list{object{"id": maria}}}, "Relation": object{"relation": list{object{"id": task}}},
		"URL": object{"url": "https://example.com"}, "Email": object{"email": "a@example.com"}, "Phone": object{"phone_number": "110"},
		"Files":    object{"files": list{object{"name": "f", "external": object{"url": "https://example.com/f"}}}},
		"Formula":  object{"formula": object{"type": "string", "string": "late"}},
		"Rollup":   object{"rollup": object{"type": "number", "number": 3, "function": "sum"}},
		"Verified": object{"verification": object{"state": "verified"}},
	})
	a.row(db, object{"Name": title("empty")})

	const both, full, empty, none = "full empty", "full", "empty", ""
	for _, c := range []struct {
		property, kind, op string
		value              any
		want               string
	}{
		{"Name", "title", "equals", "full", full},
		{"Name", "rich_text", "equals", "full", full},
		{"Text", "rich_text", "equals", "hello world", full},
		{"Text", "rich_text", "equals", "hello", none},
		{"Text", "rich_text", "does_not_equal", "Hello World", empty},
		{"Text", "rich_text", "contains", "O W", full},
		{"Text", "rich_text", "does_not_contain", "world", empty},
		{"Text", "rich_text", "starts_with", "hell", full},
		{"Text", "rich_text", "starts_with", "world", none},
		{"Text", "rich_text", "ends_with", "World", full},
		{"Text", "rich_text", "ends_with", "Hello", none},
		{"Text", "rich_text", "is_empty", true, empty},
		{"Text", "rich_text", "is_not_empty", true, full},
		{"URL", "url", "contains", "example", full},
		{"URL", "rich_text", "is_empty", true, empty},
		{"Email", "email", "equals", "a@example.com", full},
		{"Phone", "phone_number", "starts_with", "11", full},

		{"Number", "number", "equals", 5, full},
		{"Number", "number", "does_not_equal", 5, empty},
		{"Number", "number", "does_not_equal", 6, both},
		{"Number", "number", "greater_than", 4, full},
		{"Number", "number", "greater_than", 5, none},
		{"Number", "number", "less_than", 6, full},
		{"Number", "number", "less_than", 5, none},
		{"Number", "number", "greater_than_or_equal_to", 5, full},
		{"Number", "number", "less_than_or_equal_to", 5, full},
		{"Number", "number", "less_than_or_equal_to", 4, none},
		{"Number", "number", "is_empty", true, empty},
		{"Number", "number", "is_not_empty", true, full},
		{"ID", "unique_id", "equals", 1, full},
		{"ID", "unique_id", "does_not_equal", 1, empty},
		{"ID", "unique_id", "greater_than", 1, empty},
		{"ID", "unique_id", "less_than_or_equal_to", 2, both},

		{"Check", "checkbox", "equals", true, full},
		{"Check", "checkbox", "equals", false, empty},
		{"Check", "checkbox", "does_not_equal", true, empty},

		{"Select", "select", "equals", "red", full},
		{"Select", "select", "equals", "blue", none},
		{"Select", "select", "equals", list{"blue", "red"}, full},
		{"Select", "select", "does_not_equal", "red", empty},
		{"Select", "select", "is_empty", true, empty},
		{"Select", "select", "is_not_empty", true, full},
		{"Status", "status", "equals", "DOING", full},
		{"Status", "status", "equals", "OPEN", empty}, // the default
		{"Status", "status", "equals", list{"OPEN", "DOING"}, both},
		{"Status", "status", "does_not_equal", "DOING", empty},
		{"Status", "status", "is_empty", true, none},
		{"Status", "status", "is_not_empty", true, both},
		{"Multi", "multi_select", "contains", "a", full},
		{"Multi", "multi_select", "contains", "b", none},
		{"Multi", "multi_select", "does_not_contain", "a", empty},
		{"Multi", "multi_select", "is_empty", true, empty},
		{"Multi", "multi_select", "is_not_empty", true, full},

		{"People", "people", "contains", maria, full},
		{"People", "people", "contains", jonas, none},
		{"People", "people", "does_not_contain", maria, empty},
		{"People", "people", "is_empty", true, empty},
		{"People", "people", "is_not_empty", true, full},
		{"Maker", "created_by", "contains", maria, both},
		{"Maker", "people", "contains", bot, none},
		{"Editor", "last_edited_by", "does_not_contain", bot, both},
		{"Relation", "relation", "contains", undashed(task), full},
		{"Relation", "relation", "contains", other, none},
		{"Relation", "relation", "does_not_contain", task, empty},
		{"Relation", "relation", "is_empty", true, empty},
		{"Relation", "relation", "is_not_empty", true, full},
		{"Files", "files", "is_empty", true, empty},
		{"Files", "files", "is_not_empty", true, full},

		{"Formula", "formula", "string", object{"equals": "late"}, full},
		{"Formula", "formula", "string", object{"is_empty": true}, empty},
		{"Formula", "formula", "number", object{"is_empty": true}, both},
		{"Formula", "formula", "checkbox", object{"equals": true}, none},
		{"Formula", "formula", "date", object{"is_not_empty": true}, none},
		{"Rollup", "rollup", "number", object{"greater_than": 2}, full},
		{"Verified", "verification", "status", "verified", full},
		{"Verified", "verification", "status", "none", empty},

		// Comparisons are by the minute: the stored value is 18:01:00.
		{"Date", "date", "equals", "2026-06-27T18:01:15Z", full},
		{"Date", "date", "equals", "2026-06-27T18:02:00Z", none},
		{"Date", "date", "on_or_before", "2026-06-27T18:01:15Z", full},
		{"Date", "date", "on_or_before", "2026-06-27T18:00:59Z", none},
		{"Date", "date", "on_or_after", "2026-06-27T18:01:15Z", full},
		{"Date", "date", "on_or_after", "2026-06-27T18:02:00Z", none},
		{"Date", "date", "before", "2026-06-27T18:01:59Z", none},
		{"Date", "date", "before", "2026-06-27T18:02:00Z", full},
		{"Date", "date", "after", "2026-06-27T18:01:00Z", none},
		{"Date", "date", "after", "2026-06-27T18:00:59Z", full},
		{"Date", "date", "equals", "2026-06-27T18:01:15", full}, // no offset means UTC
		{"Date", "date", "equals", "2026-06-27T20:01:40+02:00", full},
		{"Date", "date", "equals", "2026-06-27", full},
		{"Date", "date", "before", "2026-06-27", none},
		{"Date", "date", "on_or_after", "2026-06-27", full},
		{"Date", "date", "after", "2026-06-26", full},
		{"Date", "date", "is_empty", true, empty},
		{"Date", "date", "is_not_empty", true, full},
	} {
		filter := object{"property": c.property, c.kind: object{c.op: c.value}}
		var want []string
		for _, w := range []string{"empty", "full"} {
			if (w == "full" && (c.want == full || c.want == both)) || (w == "empty" && (c.want == empty || c.want == both)) {
				want = append(want, w)
			}
		}
		got := a.query(db, object{"filter": filter})
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s %s %s %v: %v, want %v", c.property, c.kind, c.op, c.value, got, want)
		}
	}
}

func TestFiltersTakeIDs(t *testing.T) {
	a, dbs := seeded(t, "demo")
	id := at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", "status", "id")
	got := a.query(dbs.Tasks, object{"filter": object{"property": id, "status": object{"equals": "BLOCKED"}}})
	if len(got) != 1 {
		t.Errorf("rows are %v, want one", got)
	}
}

func TestCompoundFilters(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for _, r := range []struct{ name, status, priority string }{
		{"a", "OPEN", "high"}, {"b", "OPEN", "low"}, {"c", "COMPLETED", "high"}, {"d", "BLOCKED", "low"},
	} {
		a.row(dbs.Tasks, object{
			"Name": title(r.name), "status": object{"status": object{"name": r.status}}, "priority": object{"select": object{"name": r.priority}},
		})
	}
	status := func(s string) object { return object{"property": "status", "status": object{"equals": s}} }
	priority := func(s string) object { return object{"property": "priority", "select": object{"equals": s}} }
	for _, c := range []struct {
		filter object
		want   []string
	}{
		{object{"and": list{status("OPEN"), priority("high")}}, []string{"a"}},
		{object{"or": list{status("BLOCKED"), priority("high")}}, []string{"a", "c", "d"}},
		{object{"and": list{priority("low"), object{"or": list{status("OPEN"), status("BLOCKED")}}}}, []string{"b", "d"}},
		{object{"or": list{status("COMPLETED"), object{"and": list{status("OPEN"), priority("low")}}}}, []string{"b", "c"}},
		{object{"and": list{}}, []string{"a", "b", "c", "d"}},
	} {
		got := a.query(dbs.Tasks, object{"filter": c.filter, "sorts": list{object{"property": "Name", "direction": "ascending"}}})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.filter, diff)
		}
	}
}

func TestTimestampFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, db, _ := full(t)
		time.Sleep(30 * time.Second)
		id := a.row(db, object{"Name": title("row")}) // created 2000-01-01 00:00:30
		time.Sleep(10*time.Minute + 15*time.Second)
		if err := a.e.EditPage(id, object{"Text": text("x")}); err != nil { // edited 00:10:45
			t.Fatal(err)
		}
		for _, c := range []struct {
			timestamp, op, value string
			found                bool
		}{
			{"created_time", "equals", "2000-01-01T00:00:59Z", true},
			{"created_time", "on_or_after", "2000-01-01T00:00:45Z", true},
			{"created_time", "after", "2000-01-01T00:00:00Z", false},
			{"created_time", "before", "2000-01-01T00:01:00Z", true},
			{"last_edited_time", "on_or_after", "2000-01-01T00:10:50Z", true},
			{"last_edited_time", "after", "2000-01-01T00:10:00Z", false},
			{"last_edited_time", "after", "2000-01-01T00:09:59Z", true},
			{"last_edited_time", "on_or_before", "2000-01-01T00:10:00Z", true},
			{"last_edited_time", "before", "2000-01-01T00:10:00Z", false},
			{"last_edited_time", "equals", "2000-01-01", true},
		} {
			property := map[string]string{"created_time": "Made", "last_edited_time": "Edited"}[c.timestamp]
			for _, filter := range []object{
				{"timestamp": c.timestamp, c.timestamp: object{c.op: c.value}},
				{"property": property, c.timestamp: object{c.op: c.value}},
				{"property": property, "date": object{c.op: c.value}},
			} {
				if found := len(a.query(db, object{"filter": filter})) == 1; found != c.found {
					t.Errorf("%v: found %v, want %v", filter, found, c.found)
				}
			}
		}
	})
}

func TestRelativeDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, db, _ := full(t) // it is Saturday, 2000-01-01
		for _, day := range []string{"1998-12-31", "1999-12-01", "1999-12-24", "1999-12-26", "2000-01-01", "2000-01-08", "2000-02-01", "2000-12-31"} {
			a.row(db, object{"Name": title(day), "Date": object{"date": object{"start": day}}})
		}
		for op, want := range map[string][]string{
			"past_week":  {"1999-12-26", "2000-01-01"},
			"past_month": {"1999-12-01", "1999-12-24", "1999-12-26", "2000-01-01"},
			"past_year":  {"1999-12-01", "1999-12-24", "1999-12-26", "2000-01-01"},
			"this_week":  {"1999-12-26", "2000-01-01"},
			"next_week":  {"2000-01-01", "2000-01-08"},
			"next_month": {"2000-01-01", "2000-01-08", "2000-02-01"},
			"next_year":  {"2000-01-01", "2000-01-08", "2000-02-01", "2000-12-31"},
		} {
			got := a.query(db, object{
				"filter": object{"property": "Date", "date": object{op: object{}}},
				"sorts":  list{object{"property": "Date", "direction": "ascending"}},
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", op, diff)
			}
		}
		created := object{"timestamp": "created_time", "created_time": object{"past_week": object{}}}
		if got := a.query(db, object{"filter": created}); len(got) != 8 {
			t.Errorf("%d rows were created in the past week, want 8", len(got))
		}
	})
}

// FuzzFilter queries with a filter. The query succeeds or is refused with a 400, and every row
// matches either the filter or its opposite.
func FuzzFilter(f *testing.F) {
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	dbs, err := e.Seed("demo")
	if err != nil {
		f.Fatal(err)
	}
	db, err := e.CreateDatabase("Everything", everything(dbs.Tasks))
	if err != nil {
		f.Fatal(err)
	}
	task := e.Pages(dbs.Tasks)[0].ID
	var all []string
	for _, properties := range []object{
		{"Name": title("empty")},
		{
			"Name": title("full"), "Text": text("Hello World"), "Number": object{"number": 5}, "Check": object{"checkbox": true},
			"Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
			"Status": object{"status": object{"name": "DOING"}}, "Date": object{"date": object{"start": "2026-06-27T18:01:15+00:00"}},
			"Relation": object{"relation": list{object{"id": task}}}, "URL": object{"url": "https://example.com"},
			"Formula": object{"formula": object{"type": "string", "string": "late"}},
			"Rollup":  object{"rollup": object{"type": "number", "number": 3, "function": "sum"}},
		},
		{
			"Name": title("Straße İ"), "Text": text("hello"), "Number": object{"number": -0.5},
			"Select": object{"select": object{"name": "blue"}}, "Date": object{"date": object{"start": "2026-06-27"}},
		},
	} {
		id, err := e.CreatePage(db, properties)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, id)
	}
	slices.Sort(all)

	for _, filter := range []string{
		`{"property":"Name","title":{"equals":"full"}}`,
		`{"property":"Text","rich_text":{"does_not_contain":"WORLD"}}`,
		`{"property":"Text","rich_text":{"equals":"hello WORLD"}}`,
		`{"property":"Text","rich_text":{"starts_with":"hell"}}`,
		`{"property":"URL","url":{"is_empty":true}}`,
		`{"property":"Number","number":{"does_not_equal":5}}`,
		`{"property":"Number","number":{"greater_than_or_equal_to":-0.5}}`,
		`{"property":"ID","unique_id":{"equals":1}}`,
		`{"property":"Check","checkbox":{"equals":false}}`,
		`{"property":"Select","select":{"equals":"red"}}`,
		`{"property":"Select","select":{"equals":["red","blue"]}}`,
		`{"property":"Status","status":{"does_not_equal":"DOING"}}`,
		`{"property":"Multi","multi_select":{"contains":"a"}}`,
		`{"property":"Relation","relation":{"contains":"` + task + `"}}`,
		`{"property":"Maker","people":{"is_not_empty":true}}`,
		`{"property":"Files","files":{"is_empty":true}}`,
		`{"property":"Date","date":{"is_not_empty":true}}`,
		`{"property":"Date","date":{"on_or_after":"2026-06-27T18:01:15Z"}}`,
		`{"property":"Date","date":{"past_month":{}}}`,
		`{"property":"Formula","formula":{"string":{"equals":"late"}}}`,
		`{"property":"Rollup","rollup":{"number":{"does_not_equal":3}}}`,
		`{"property":"Verified","verification":{"status":"none"}}`,
		`{"timestamp":"created_time","created_time":{"this_week":{}}}`,
		`{"and":[{"property":"Check","checkbox":{"equals":true}},{"or":[{"property":"Status","status":{"equals":"OPEN"}},{"property":"Number","number":{"is_empty":true}}]}]}`,
		`{"or":[]}`, `{}`, `[]`, `null`, `"x"`,
		`{"property":"","title":{"equals":1e999}}`, `{"property":"Name","title":{"equals":"\ud800"}}`,
	} {
		f.Add(filter)
	}
	client := e.Client()
	f.Fuzz(func(t *testing.T, filter string) {
		rows, ok := filtered(t, e, client, db, filter)
		var decoded object
		if !ok || json.Unmarshal([]byte(filter), &decoded) != nil {
			return
		}
		turned, has := opposite(decoded)
		if !has {
			return
		}
		data, err := json.Marshal(turned)
		if err != nil {
			t.Fatal(err)
		}
		others, ok := filtered(t, e, client, db, string(data))
		if !ok {
			return // some values suit only one operator: equals takes a list of options
		}
		if both := slices.Sorted(slices.Values(slices.Concat(rows, others))); !slices.Equal(both, all) {
			t.Errorf("%s takes %v, %s takes %v: together they must take each of %v once", filter, rows, data, others, all)
		}
	})
}

// filtered returns the rows that match a filter in JSON, and false if the filter was properly
// refused.
func filtered(t *testing.T, e *emulator.Emulator, client *http.Client, db, filter string) (rows []string, ok bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"https://api.notion.com/v1/databases/"+db+"/query", strings.NewReader(`{"filter":`+filter+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.Token())
	req.Header.Set("Notion-Version", "2022-06-28")
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	var answer struct {
		Object, Code, Message string
		Results               []struct{ ID string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v in %s", filter, err, body)
	}
	switch {
	case res.StatusCode == http.StatusOK && answer.Object == "list":
		for _, row := range answer.Results {
			rows = append(rows, row.ID)
		}
		return rows, true
	case res.StatusCode == http.StatusBadRequest && answer.Object == "error" && answer.Code != "" && answer.Message != "":
		return nil, false
	}
	t.Errorf("%s: status %d and %s, want rows or a 400", filter, res.StatusCode, body)
	return nil, false
}

// opposites maps operators to their negations.
var opposites = map[string]string{
	"equals": "does_not_equal", "does_not_equal": "equals",
	"contains": "does_not_contain", "does_not_contain": "contains",
	"is_empty": "is_not_empty", "is_not_empty": "is_empty",
}

// opposite returns the negation of a filter, and false if there is none.
func opposite(filter object) (object, bool) {
	for key, turned := range map[string]string{"and": "or", "or": "and"} {
		parts, ok := filter[key].(list)
		if !ok {
			continue
		}
		others := list{}
		for _, part := range parts {
			m, _ := part.(object)
			other, ok := opposite(m)
			if !ok {
				return nil, false
			}
			others = append(others, other)
		}
		// Without members, neither is a condition.
		return object{turned: others}, len(others) > 0
	}
	out := object{}
	for key, value := range filter {
		out[key] = value
		if condition, ok := value.(object); ok {
			if out[key], ok = oppositeCondition(condition); !ok {
				return nil, false
			}
		}
	}
	return out, len(out) > 0
}

// oppositeCondition does the same for a condition, such as {"equals": 1}, or {"number": {"equals":
// 1}} on a formula.
func oppositeCondition(condition object) (object, bool) {
	out := object{}
	for op, value := range condition {
		if inner, ok := value.(object); ok {
			if out[op], ok = oppositeCondition(inner); !ok {
				return nil, false
			}
		} else if turned := opposites[op]; turned != "" {
			out[turned] = value
		} else {
			return nil, false
		}
	}
	return out, len(out) == 1
}
