package emulator_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every operator of every condition, and its negation, on a row "full" with all properties set and a row
// "empty" with none.
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

	const both, full, empty, none = "empty full", "full", "empty", ""
	for _, c := range []struct {
		property, kind, op string
		value              any
		want               string
	}{
		{"Name", "title", "equals", "full", full},
		{"Name", "rich_text", "equals", "full", full},
		{"Text", "rich_text", "equals", "hello world", full},
		{"Text", "rich_text", "equals", "hello", none},
		{"Text", "rich_text", "contains", "O W", full},
		{"Text", "rich_text", "starts_with", "hell", full},
		{"Text", "rich_text", "starts_with", "world", none},
		{"Text", "rich_text", "ends_with", "World", full},
		{"Text", "rich_text", "ends_with", "Hello", none},
		{"Text", "rich_text", "is_empty", true, empty},
		{"URL", "url", "contains", "example", full},
		{"URL", "rich_text", "is_empty", true, empty},
		{"Email", "email", "equals", "a@example.com", full},
		{"Phone", "phone_number", "starts_with", "11", full},

		{"Number", "number", "equals", 5, full},
		{"Number", "number", "does_not_equal", 6, both},
		{"Number", "number", "greater_than", 4, full},
		{"Number", "number", "greater_than", 5, none},
		{"Number", "number", "less_than", 6, full},
		{"Number", "number", "less_than", 5, none},
		{"Number", "number", "greater_than_or_equal_to", 5, full},
		{"Number", "number", "less_than_or_equal_to", 5, full},
		{"Number", "number", "less_than_or_equal_to", 4, none},
		{"Number", "number", "is_empty", true, empty},
		{"ID", "unique_id", "equals", 1, full},
		{"ID", "unique_id", "greater_than", 1, empty},
		{"ID", "unique_id", "less_than_or_equal_to", 2, both},

		{"Check", "checkbox", "equals", true, full},
		{"Check", "checkbox", "equals", false, empty},

		{"Select", "select", "equals", "red", full},
		{"Select", "select", "equals", "blue", none},
		{"Select", "select", "equals", list{"blue", "red"}, full},
		{"Select", "select", "is_empty", true, empty},
		{"Status", "status", "equals", "DOING", full},
		{"Status", "status", "equals", "OPEN", empty}, // the default
		{"Status", "status", "equals", list{"OPEN", "DOING"}, both},
		{"Status", "status", "is_empty", true, none},
		{"Multi", "multi_select", "contains", "a", full},
		{"Multi", "multi_select", "contains", "b", none},
		{"Multi", "multi_select", "is_empty", true, empty},

		{"People", "people", "contains", maria, full},
		{"People", "people", "contains", jonas, none},
		{"People", "people", "is_empty", true, empty},
		{"Maker", "created_by", "contains", maria, both},
		{"Maker", "people", "contains", bot, none},
		{"Editor", "last_edited_by", "does_not_contain", bot, both},
		{"Relation", "relation", "contains", undashed(task), full},
		{"Relation", "relation", "contains", other, none},
		{"Relation", "relation", "is_empty", true, empty},
		{"Files", "files", "is_empty", true, empty},

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
	} {
		want := strings.Fields(c.want)
		if got := a.filtered(db, object{"property": c.property, c.kind: object{c.op: c.value}}); !slices.Equal(got, want) {
			t.Errorf("%s %s %s %v: %v, want %v", c.property, c.kind, c.op, c.value, got, want)
		}
		_, isList := c.value.(list)
		turned := opposites[c.op]
		if turned == "" || isList || c.kind == "date" && c.op == "equals" {
			continue
		}
		rest := slices.DeleteFunc([]string{"empty", "full"}, func(s string) bool { return slices.Contains(want, s) })
		if got := a.filtered(db, object{"property": c.property, c.kind: object{turned: c.value}}); !slices.Equal(got, rest) {
			t.Errorf("%s %s %s %v: %v, want %v", c.property, c.kind, turned, c.value, got, rest)
		}
	}
}

// opposites maps operators to their negations.
var opposites = map[string]string{
	"equals": "does_not_equal", "does_not_equal": "equals", "contains": "does_not_contain", "does_not_contain": "contains",
	"is_empty": "is_not_empty", "is_not_empty": "is_empty",
}

// filtered returns the titles of the rows that a filter takes, in order.
func (a *api) filtered(db string, filter object) []string {
	a.t.Helper()
	return a.query(db, object{"filter": filter, "sorts": list{object{"property": "Name", "direction": "ascending"}}})
}

func TestCompoundFilters(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for _, r := range []struct{ name, status, priority string }{
		{"a", "OPEN", "high"}, {"b", "OPEN", "low"}, {"c", "COMPLETED", "high"}, {"d", "BLOCKED", "low"},
	} {
		a.row(dbs.Tasks, object{"Name": title(r.name), "status": status(r.status), "priority": object{"select": object{"name": r.priority}}})
	}
	is := func(s string) object { return object{"property": "status", "status": object{"equals": s}} }
	priority := func(s string) object { return object{"property": "priority", "select": object{"equals": s}} }
	id := at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", "status", "id")
	for _, c := range []struct {
		filter object
		want   string
	}{
		{object{"and": list{is("OPEN"), priority("high")}}, "a"},
		{object{"or": list{is("BLOCKED"), priority("high")}}, "a c d"},
		{object{"and": list{priority("low"), object{"or": list{is("OPEN"), is("BLOCKED")}}}}, "b d"},
		{object{"or": list{is("COMPLETED"), object{"and": list{is("OPEN"), priority("low")}}}}, "b c"},
		{object{"and": list{}}, "a b c d"},
		{object{"property": id, "status": object{"equals": "BLOCKED"}}, "d"},
		{object{"property": "status", "status": object{"does_not_equal": list{"COMPLETED", "BLOCKED"}}}, "a b"},
	} {
		same(t, strings.Fields(c.want), a.filtered(dbs.Tasks, c.filter), "%v", c.filter)
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
		a.row(db, object{"Name": title("mine"), "People": object{"people": list{object{"id": a.play(`GET users/me`)["id"]}}}})
		for _, day := range []string{"1998-12-31", "1999-12-01", "1999-12-24", "1999-12-26", "2000-01-01", "2000-01-08", "2000-02-01", "2000-12-31"} {
			a.row(db, object{"Name": title(day), "Date": object{"date": object{"start": day}}})
		}
		for op, want := range map[string]string{
			"past_week":  "1999-12-26 2000-01-01",
			"past_month": "1999-12-01 1999-12-24 1999-12-26 2000-01-01",
			"past_year":  "1999-12-01 1999-12-24 1999-12-26 2000-01-01",
			"this_week":  "1999-12-26 2000-01-01",
			"next_week":  "2000-01-01 2000-01-08",
			"next_month": "2000-01-01 2000-01-08 2000-02-01",
			"next_year":  "2000-01-01 2000-01-08 2000-02-01 2000-12-31",
		} {
			same(t, strings.Fields(want), a.filtered(db, object{"property": "Date", "date": object{op: object{}}}), "%s", op)
		}
		for _, c := range [][3]string{
			{"equals", "today", "2000-01-01"}, {"before", "1999-12-02", "1998-12-31 1999-12-01"}, {"before", "yesterday", "1998-12-31 1999-12-01 1999-12-24 1999-12-26"},
			{"on_or_after", "tomorrow", "2000-01-08 2000-02-01 2000-12-31"},
		} {
			same(t, strings.Fields(c[2]), a.filtered(db, object{"property": "Date", "date": object{c[0]: c[1]}}), "%v", c)
		}
		created := object{"timestamp": "created_time", "created_time": object{"past_week": object{}}}
		if got := a.query(db, object{"filter": created}); len(got) != 9 {
			t.Errorf("%d rows were created in the past week, want 9", len(got))
		}
		same(t, []string{"mine"}, a.filtered(db, object{"property": "People", "people": object{"contains": "me"}}), "me")
		same(t, []string(nil), a.filtered(db, object{"property": "Maker", "created_by": object{"contains": "me"}}), "made by me")
		if got := a.filtered(db, object{"property": "People", "people": object{"does_not_contain": "me"}}); len(got) != 8 {
			t.Errorf("not mine are %v", got)
		}
	})
}
