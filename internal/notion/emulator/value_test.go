package emulator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDatesAreCutToTheMinute(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, nil)
	for _, c := range []struct {
		name  string
		write object
		want  any
	}{
		{"UTC", object{"start": "2026-06-27T17:57:39.085926Z"}, "2026-06-27T17:57:00.000+00:00"},
		{"offset", object{"start": "2026-06-27T17:57:39.085+01:00"}, "2026-06-27T17:57:00.000+01:00"},
		{"odd offset", object{"start": "2026-06-27T17:57:59+05:45"}, "2026-06-27T17:57:00.000+05:45"},
		{"no offset", object{"start": "2026-06-27T17:57:59"}, "2026-06-27T17:57:00.000+00:00"},
		{"no seconds", object{"start": "2026-06-27T17:57+02:00"}, "2026-06-27T17:57:00.000+02:00"},
		{"zone in summer", object{"start": "2026-06-27T17:57:39.085926", "time_zone": "Europe/London"}, "2026-06-27T17:57:00.000+01:00"},
		{"zone in winter", object{"start": "2026-12-27T17:57:39", "time_zone": "Europe/London"}, "2026-12-27T17:57:00.000+00:00"},
		{"day", object{"start": "2026-06-27"}, "2026-06-27"},
		{"before 1970", object{"start": "1969-12-31T23:59:59.999Z"}, "1969-12-31T23:59:00.000+00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := a.in(t).ok("PATCH", pathPages+"/"+id, object{"properties": object{"Date": object{"date": c.write}}})
			want := object{"start": c.want, "end": nil, "time_zone": nil}
			if diff := cmp.Diff(want, at(got, "properties", "Date", "date")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"Date": object{"date": object{"start": "2026-01-01", "end": "2026-01-03"}}}})
	if at(got, "properties", "Date", "date", "end") != "2026-01-03" {
		t.Errorf("date is %v", at(got, "properties", "Date", "date"))
	}
}

// Written values are returned as answers show them; null or an empty list clears a value.
func TestValuesComeBack(t *testing.T) {
	a, db, dbs := full(t)
	id := a.row(db, nil)
	task := a.e.Pages(dbs.Tasks)[3].ID
	schema := a.ok("GET", "/v1/databases/"+db, nil)["properties"]
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1)
	ref := func(name string, i int) object {
		kind := at(schema, name, "type").(string)
		o := at(schema, name, kind, "options", i).(object)
		return object{"id": o["id"], "name": o["name"], "color": o["color"]}
	}
	span := object{
		"type": "text", "text": object{"content": "x", "link": nil}, "plain_text": "x", "href": nil,
		"annotations": object{"bold": false, "italic": false, "strikethrough": false, "underline": false, "code": false, "color": "default"},
	}
	linked := object{
		"type": "text", "text": object{"content": "y", "link": object{"url": "https://example.com"}}, "plain_text": "y", "href": "https://example.com",
		"annotations": object{"bold": true, "italic": false, "strikethrough": false, "underline": false, "code": false, "color": "red"},
	}
	for _, c := range []struct {
		property     string
		write        any
		want         any
		clear, empty any
	}{
		{"Name", object{"title": list{object{"text": object{"content": "x"}}}}, list{span}, object{"title": list{}}, list{}},
		{"Text", object{"rich_text": list{object{"text": object{"content": "x"}}, object{
			"type": "text", "text": object{"content": "y", "link": object{"url": "https://example.com"}}, "annotations": object{"bold": true, "color": "red"},
		}}}, list{span, linked}, object{"rich_text": list{object{"text": object{"content": ""}}}}, list{}},
		{"Number", object{"number": 2.5}, 2.5, object{"number": nil}, nil},
		{"Select", object{"select": object{"name": "blue"}}, ref("Select", 1), object{"select": nil}, nil},
		{"Select", object{"select": object{"id": ref("Select", 0)["id"]}}, ref("Select", 0), object{"type": "select", "select": nil}, nil},
		{"Multi", object{"multi_select": list{object{"name": "b"}, object{"name": "a"}}}, list{ref("Multi", 1), ref("Multi", 0)}, object{"multi_select": list{}}, list{}},
		{"Status", object{"status": object{"name": "DOING"}}, ref("Status", 1), object{"status": nil}, ref("Status", 0)},
		{"Status", object{"status": object{"id": ref("Status", 2)["id"]}}, ref("Status", 2), object{"status": nil}, ref("Status", 0)},
		{"Date", object{"date": object{"start": "2026-01-01"}}, object{"start": "2026-01-01", "end": nil, "time_zone": nil}, object{"date": nil}, nil},
		{"People", object{"people": list{object{"id": at(maria, "id")}}}, list{maria}, object{"people": list{}}, list{}},
		{"Check", object{"checkbox": true}, true, object{"checkbox": false}, false},
		{"URL", object{"url": "https://example.com"}, "https://example.com", object{"url": nil}, nil},
		{"Email", object{"email": "a@example.com"}, "a@example.com", object{"email": nil}, nil},
		{"Phone", object{"phone_number": "110"}, "110", object{"phone_number": nil}, nil},
		{"Relation", object{"relation": list{object{"id": undashed(task)}}}, list{object{"id": task}}, object{"relation": list{}}, list{}},
		{"Files", object{"files": list{object{"name": "f", "external": object{"url": "https://example.com/f"}}}},
			list{object{"name": "f", "type": "external", "external": object{"url": "https://example.com/f"}}}, object{"files": list{}}, list{}},
	} {
		t.Run(c.property, func(t *testing.T) {
			a := a.in(t)
			kind := at(schema, c.property, "type").(string)
			for _, step := range []struct{ write, want any }{{c.write, c.want}, {c.clear, c.empty}} {
				patched := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{c.property: step.write}})
				got := a.ok("GET", pathPages+"/"+id, nil)
				for _, answer := range []object{patched, got} {
					if diff := cmp.Diff(step.want, at(answer, "properties", c.property, kind)); diff != "" {
						t.Errorf("after %v (-want +got):\n%s", step.write, diff)
					}
				}
			}
		})
	}
}

func TestSelectsLearnOptions(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, nil)
	a.ok("PATCH", pathPages+"/"+id, object{"properties": object{
		"Select": object{"select": object{"name": "green"}},
		"Multi":  object{"multi_select": list{object{"name": "c"}, object{"name": "d"}, object{"name": "c"}}},
	}})
	schema := a.ok("GET", "/v1/databases/"+db, nil)["properties"]
	if at(schema, "Select", "select", "options", 2, "name") != "green" || at(schema, "Multi", "multi_select", "options", 3, "name") != "d" {
		t.Errorf("options are %v and %v", at(schema, "Select"), at(schema, "Multi"))
	}
	// A refused write creates none.
	a.refused("PATCH", pathPages+"/"+id, object{"properties": object{
		"Multi": object{"multi_select": list{object{"name": "e"}}}, "Number": object{"number": "x"},
	}}, badRequest, validation, "")
	if n := len(at(a.ok("GET", "/v1/databases/"+db, nil), "properties", "Multi", "multi_select", "options").(list)); n != 4 {
		t.Errorf("%d options, want 4", n)
	}
}

func TestValuesOfTheWrongForm(t *testing.T) {
	a, db, dbs := full(t)
	id := a.row(db, nil)
	many := func(n int, v any) list {
		out := make(list, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	span := func(s string) object { return object{"text": object{"content": s}} }
	const props = "body failed validation: body.properties."
	for _, c := range []struct {
		name, property string
		value          any
		message        string
	}{
		{"another type", "Text", object{"select": object{"name": "x"}}, "Text is expected to be rich_text."},
		{"a type that is another's", "Status", object{"type": "select", "status": object{"name": "x"}}, "Status is expected to be status."},
		{"no object", "Text", "x", props + "Text should be an object, instead was `\"x\"`."},
		{"null", "Text", nil, props + "Text should be an object, instead was `null`."},
		{"text that is no list", "Text", object{"rich_text": "x"}, props + "Text.rich_text should be an array, instead was `\"x\"`."},
		{"text without content", "Text", object{"rich_text": list{object{"text": object{}}}}, props + "Text.rich_text[0].text.content should be defined, instead was `undefined`."},
		{"text that is a number", "Text", object{"rich_text": list{object{"text": object{"content": 5}}}}, props + "Text.rich_text[0].text.content should be a string, instead was `5`."},
		{"text too long", "Text", object{"rich_text": list{span("ok"), span(strings.Repeat("x", 2001))}},
			props + "Text.rich_text[1].text.content.length should be ≤ `2000`, instead was `2001`."},
		{"text too long in UTF-16", "Text", object{"rich_text": list{span(strings.Repeat("😀", 1001))}},
			props + "Text.rich_text[0].text.content.length should be ≤ `2000`, instead was `2002`."},
		{"too many spans", "Text", object{"rich_text": many(101, span("x"))}, props + "Text.rich_text.length should be ≤ `100`, instead was `101`."},
		{"title too long", "Name", title(strings.Repeat("x", 2001)), props + "Name.title[0].text.content.length should be ≤ `2000`, instead was `2001`."},
		{"number as text", "Number", object{"number": "5"}, props + "Number.number should be a number, instead was `\"5\"`."},
		{"select as text", "Select", object{"select": "red"}, props + "Select.select should be an object, instead was `\"red\"`."},
		{"select without a name", "Select", object{"select": object{"name": ""}}, props + "Select.select.name.length should be ≥ `1`, instead was `0`."},
		{"select with a comma", "Select", object{"select": object{"name": "a, b"}}, "Invalid select option, commas not allowed: a, b"},
		{"select too long", "Select", object{"select": object{"name": strings.Repeat("x", 101)}}, props + "Select.select.name.length should be ≤ `100`, instead was `101`."},
		{"unknown status", "Status", object{"status": object{"name": "GONE"}}, "Invalid status option. Status option \"GONE\" does not exist."},
		{"status in another case", "Status", object{"status": object{"name": "open"}}, "Invalid status option. Status option \"open\" does not exist."},
		{"unknown status id", "Status", object{"status": object{"id": "zzz"}}, "Status option \"zzz\" does not exist."},
		{"bad date", "Date", object{"date": object{"start": "2026/01/02"}}, props + "Date.date.start should be a valid ISO 8601 date string, instead was `\"2026/01/02\"`."},
		{"date as text", "Date", object{"date": "2026-01-02"}, props + "Date.date should be an object, instead was `\"2026-01-02\"`."},
		{"date without a start", "Date", object{"date": object{}}, props + "Date.date.start should be defined, instead was `undefined`."},
		{"bad zone", "Date", object{"date": object{"start": "2026-01-02T10:00:00", "time_zone": "Mars"}}, props + "Date.date.time_zone should be a valid IANA time zone, instead was `\"Mars\"`."},
		{"zone and offset", "Date", object{"date": object{"start": "2026-01-02T10:00:00Z", "time_zone": "Europe/London"}}, ""},
		{"end before start", "Date", object{"date": object{"start": "2026-01-02", "end": "2026-01-01"}}, ""},
		{"checkbox as text", "Check", object{"checkbox": "true"}, props + "Check.checkbox should be a boolean, instead was `\"true\"`."},
		{"url as a number", "URL", object{"url": 1}, props + "URL.url should be a string, instead was `1`."},
		{"person without a uuid", "People", object{"people": list{object{"id": "x"}}}, props + "People.people[0].id should be a valid uuid, instead was `\"x\"`."},
		{"relation without an id", "Relation", object{"relation": list{object{}}}, props + "Relation.relation[0].id should be defined, instead was `undefined`."},
		{"too many relations", "Relation", object{"relation": many(101, object{"id": nobody})}, props + "Relation.relation.length should be ≤ `100`, instead was `101`."},
		{"formula", "Formula", object{"formula": object{"string": "x"}}, props + "Formula.formula should be not present, instead was `{\"string\":\"x\"}`."},
		{"unique_id", "ID", object{"unique_id": object{"number": 7}}, props + "ID.unique_id should be not present, instead was `{\"number\":7}`."},
		{"created_time", "Made", object{"created_time": "2020-01-01T00:00:00Z"}, props + "Made.created_time should be not present, instead was `\"2020-01-01T00:00:00Z\"`."},
		{"mention without a date", "Text", object{"rich_text": list{object{"mention": object{"date": nil}}}}, props + "Text.rich_text[0].mention.date should be an object, instead was `null`."},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := a.in(t)
			before := a.ok("GET", pathPages+"/"+id, nil)["properties"]
			body := object{"properties": object{c.property: c.value}}
			a.refused("PATCH", pathPages+"/"+id, body, badRequest, validation, c.message)
			body["parent"] = object{"database_id": db}
			a.refused("POST", pathPages, body, badRequest, validation, c.message)
			if diff := cmp.Diff(before, a.ok("GET", pathPages+"/"+id, nil)["properties"]); diff != "" {
				t.Errorf("a refused write changed the page:\n%s", diff)
			}
		})
	}
	for name, value := range map[string]object{
		"People":   {"people": list{object{"id": nobody}}},
		"Relation": {"relation": list{object{"id": id}}}, // a page of another database
	} {
		a.refused("PATCH", pathPages+"/"+id, object{"properties": object{name: value}}, 404, "object_not_found", "")
	}
	if n := len(a.e.Pages(db)); n != 1 {
		t.Errorf("%d rows, want only the first: refused creates made some", n)
	}
	_ = dbs
}

// Values that Notion computes or only shows can be set without the API.
func TestReadOnlyValuesAreShownAsSet(t *testing.T) {
	a, db, _ := full(t)
	user := object{"object": "user", "id": nobody}
	set := map[string]any{
		"formula":          object{"type": "string", "string": "late"},
		"rollup":           object{"type": "unsupported", "unsupported": object{}, "function": "show_original"},
		"created_time":     "2020-01-01T00:00:00.000Z",
		"created_by":       user,
		"last_edited_time": "2020-01-02T00:00:00.000Z",
		"last_edited_by":   user,
		"verification":     object{"state": "verified", "verified_by": user, "date": nil},
		"button":           object{},
		"place":            object{"lat": 52.5, "lon": 13.4, "name": "Berlin"},
		"unsupported":      object{},
	}
	names := map[string]string{
		"formula": "Formula", "rollup": "Rollup", "created_time": "Made", "created_by": "Maker", "last_edited_time": "Edited",
		"last_edited_by": "Editor", "verification": "Verified", "button": "Button", "place": "Place", "unsupported": "Strange",
	}
	values := object{}
	for kind, v := range set {
		values[names[kind]] = object{kind: v}
	}
	id := a.row(db, values)
	unset := a.row(db, nil)
	if err := a.e.EditPage(unset, values); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{id, unset} {
		got := a.ok("GET", pathPages+"/"+id, nil)["properties"]
		for kind, want := range set {
			if diff := cmp.Diff(want, at(got, names[kind], kind)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		}
	}
	if err := a.e.EditPage(id, object{"ID": object{"unique_id": object{"number": 42}}}); err != nil {
		t.Fatal(err)
	}
	if p, _ := a.e.Page(id); p.Number("ID") != 42 {
		t.Errorf("unique id = %v, want 42", p.Number("ID"))
	}
}

func TestUnsetValuesOfEveryType(t *testing.T) {
	a, db, _ := full(t)
	got := a.ok("POST", pathPages, object{"parent": object{"database_id": db}, "properties": object{}})["properties"].(object)
	empty := map[string]any{
		"title": list{}, "rich_text": list{}, "number": nil, "select": nil, "multi_select": list{}, "date": nil, "people": list{},
		"files": list{}, "checkbox": false, "url": nil, "email": nil, "phone_number": nil, "relation": list{}, "button": object{}, "place": nil,
		"unsupported": object{}, "created_time": at(got, "Edited", "last_edited_time"), "unique_id": object{"prefix": "ROW", "number": 1.0},
	}
	if len(got) != len(everything("")) {
		t.Errorf("%d properties, want %d", len(got), len(everything("")))
	}
	for name, p := range got {
		kind := at(p, "type").(string)
		if want, ok := empty[kind]; ok {
			if diff := cmp.Diff(want, at(p, kind)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if _, ok := p.(object)[kind]; !ok {
			t.Errorf("%s: nothing under %q", name, kind)
		}
	}
	if at(got, "Maker", "created_by", "type") != "bot" || at(got, "Relation", "has_more") != false {
		t.Errorf("Maker %v, Relation %v", got["Maker"], got["Relation"])
	}
}

func TestMentionsAndEquations(t *testing.T) {
	a, db, dbs := full(t)
	id := a.row(db, nil)
	task := a.e.Pages(dbs.Tasks)[0]
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1, "id")
	got := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"Text": object{"rich_text": list{
		object{"mention": object{"user": object{"id": maria}}},
		object{"mention": object{"page": object{"id": task.ID}}},
		object{"mention": object{"date": object{"start": "2026-01-02"}}},
		object{"equation": object{"expression": "e=mc^2"}},
	}}}})
	var plain []any
	for _, s := range at(got, "properties", "Text", "rich_text").(list) {
		plain = append(plain, at(s, "plain_text"))
	}
	if diff := cmp.Diff([]any{"@Maria", task.Title(), "2026-01-02", "e=mc^2"}, plain); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
