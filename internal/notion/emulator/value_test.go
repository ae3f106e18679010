package emulator_test

import (
	"strings"
	"testing"
)

func TestDatesAreCutToTheMinute(t *testing.T) {
	a, db, _ := full(t)
	a.names["row"] = a.row(db, nil)
	for _, c := range [][2]string{ // what is sent, and how it is answered
		{`"2026-06-27T17:57:39.085926Z"`, "2026-06-27T17:57:00.000+00:00"},
		{`"2026-06-27T17:57:39.085+01:00"`, "2026-06-27T17:57:00.000+01:00"},
		{`"2026-06-27T17:57:59+05:45"`, "2026-06-27T17:57:00.000+05:45"},
		{`"2026-06-27T17:57:59"`, "2026-06-27T17:57:00.000+00:00"},
		{`"2026-06-27T17:57+02:00"`, "2026-06-27T17:57:00.000+02:00"},
		{`"2026-06-27T17:57:39.085926","time_zone":"Europe/London"`, "2026-06-27T17:57:00.000+01:00"}, // in summer
		{`"2026-12-27T17:57:39","time_zone":"Europe/London"`, "2026-12-27T17:57:00.000+00:00"},        // in winter
		{`"2026-06-27"`, "2026-06-27"},
		{`"1969-12-31T23:59:59.999Z"`, "1969-12-31T23:59:00.000+00:00"},
	} {
		a.play(`PATCH pages/$row {"properties":{"Date":{"date":{"start":` + c[0] + `}}}} | properties.Date.date = {"start":"` + c[1] + `","end":null,"time_zone":null}`)
	}
	a.play(`PATCH pages/$row {"properties":{"Date":{"date":{"start":"2026-01-01","end":"2026-01-03"}}}} | properties.Date.date.end = "2026-01-03"`)
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
		kind := at(schema, c.property, "type").(string)
		for _, step := range []struct{ write, want any }{{c.write, c.want}, {c.clear, c.empty}} {
			patched := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{c.property: step.write}})
			same(t, step.want, at(patched, "properties", c.property, kind), "%s after %v", c.property, step.write)
			same(t, patched["properties"], a.ok("GET", pathPages+"/"+id, nil)["properties"], "read after %v", step.write)
		}
	}
}

func TestSelectsLearnOptions(t *testing.T) {
	a, db, _ := full(t)
	a.names["row"] = a.row(db, nil)
	a.play(`
PATCH pages/$row {"properties":{"Select":{"select":{"name":"green"}},"Multi":{"multi_select":[{"name":"c"},{"name":"d"},{"name":"c"}]}}}
GET databases/$db | properties.Select.select.options.2.name = "green" | properties.Multi.multi_select.options.3.name = "d"
PATCH pages/$row {"properties":{"Multi":{"multi_select":[{"name":"e"}]},"Number":{"number":"x"}}} | 400
GET databases/$db | #properties.Multi.multi_select.options = 4`) // a refused write makes none
}

func TestValuesOfTheWrongForm(t *testing.T) {
	a, db, _ := full(t)
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
		property string
		value    any
		message  string
	}{
		{"Text", object{"select": object{"name": "x"}}, "Text is expected to be rich_text."},
		{"Status", object{"type": "select", "status": object{"name": "x"}}, "Status is expected to be status."},
		{"Text", "x", props + "Text should be an object, instead was `\"x\"`."},
		{"Text", nil, props + "Text should be an object, instead was `null`."},
		{"Text", object{"rich_text": "x"}, props + "Text.rich_text should be an array, instead was `\"x\"`."},
		{"Text", object{"rich_text": list{object{"text": object{}}}}, props + "Text.rich_text[0].text.content should be defined, instead was `undefined`."},
		{"Text", object{"rich_text": list{object{"text": object{"content": 5}}}}, props + "Text.rich_text[0].text.content should be a string, instead was `5`."},
		{"Text", object{"rich_text": list{span("ok"), span(strings.Repeat("x", 2001))}},
			props + "Text.rich_text[1].text.content.length should be ≤ `2000`, instead was `2001`."},
		{"Text", object{"rich_text": list{span(strings.Repeat("😀", 1001))}},
			props + "Text.rich_text[0].text.content.length should be ≤ `2000`, instead was `2002`."},
		{"Text", object{"rich_text": many(101, span("x"))}, props + "Text.rich_text.length should be ≤ `100`, instead was `101`."},
		{"Name", title(strings.Repeat("x", 2001)), props + "Name.title[0].text.content.length should be ≤ `2000`, instead was `2001`."},
		{"Number", object{"number": "5"}, props + "Number.number should be a number, instead was `\"5\"`."},
		{"Select", object{"select": "red"}, props + "Select.select should be an object, instead was `\"red\"`."},
		{"Select", object{"select": object{"name": ""}}, props + "Select.select.name.length should be ≥ `1`, instead was `0`."},
		{"Select", object{"select": object{"name": "a, b"}}, "Invalid select option, commas not allowed: a, b"},
		{"Select", object{"select": object{"name": strings.Repeat("x", 101)}}, props + "Select.select.name.length should be ≤ `100`, instead was `101`."},
		{"Status", object{"status": object{"name": "GONE"}}, "Invalid status option. Status option \"GONE\" does not exist."},
		{"Status", object{"status": object{"name": "open"}}, "Invalid status option. Status option \"open\" does not exist."},
		{"Status", object{"status": object{"id": "zzz"}}, "Status option \"zzz\" does not exist."},
		{"Date", object{"date": object{"start": "2026/01/02"}}, props + "Date.date.start should be a valid ISO 8601 date string, instead was `\"2026/01/02\"`."},
		{"Date", object{"date": "2026-01-02"}, props + "Date.date should be an object, instead was `\"2026-01-02\"`."},
		{"Date", object{"date": object{}}, props + "Date.date.start should be defined, instead was `undefined`."},
		{"Date", object{"date": object{"start": "2026-01-02T10:00:00", "time_zone": "Mars"}}, props + "Date.date.time_zone should be a valid IANA time zone, instead was `\"Mars\"`."},
		{"Date", object{"date": object{"start": "2026-01-02T10:00:00Z", "time_zone": "Europe/London"}}, ""},
		{"Date", object{"date": object{"start": "2026-01-02", "end": "2026-01-01"}}, ""},
		{"Check", object{"checkbox": "true"}, props + "Check.checkbox should be a boolean, instead was `\"true\"`."},
		{"URL", object{"url": 1}, props + "URL.url should be a string, instead was `1`."},
		{"People", object{"people": list{object{"id": "x"}}}, props + "People.people[0].id should be a valid uuid, instead was `\"x\"`."},
		{"Relation", object{"relation": list{object{}}}, props + "Relation.relation[0].id should be defined, instead was `undefined`."},
		{"Relation", object{"relation": many(101, object{"id": nobody})}, props + "Relation.relation.length should be ≤ `100`, instead was `101`."},
		{"Formula", object{"formula": object{"string": "x"}}, props + "Formula.formula should be not present, instead was `{\"string\":\"x\"}`."},
		{"ID", object{"unique_id": object{"number": 7}}, props + "ID.unique_id should be not present, instead was `{\"number\":7}`."},
		{"Made", object{"created_time": "2020-01-01T00:00:00Z"}, props + "Made.created_time should be not present, instead was `\"2020-01-01T00:00:00Z\"`."},
		{"Text", object{"rich_text": list{object{"mention": object{"date": nil}}}}, props + "Text.rich_text[0].mention.date should be an object, instead was `null`."},
	} {
		before := a.ok("GET", pathPages+"/"+id, nil)["properties"]
		body := object{"properties": object{c.property: c.value}}
		a.refused("PATCH", pathPages+"/"+id, body, badRequest, validation, c.message)
		body["parent"] = object{"database_id": db}
		a.refused("POST", pathPages, body, badRequest, validation, c.message)
		same(t, before, a.ok("GET", pathPages+"/"+id, nil)["properties"], "after a refused write")
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
}

// Values that Notion computes or only shows can be set without the API.
func TestReadOnlyValuesAreShownAsSet(t *testing.T) {
	a, db, _ := full(t)
	user := object{"object": "user", "id": nobody}
	values := object{
		"Formula": object{"formula": object{"type": "string", "string": "late"}}, "Made": object{"created_time": "2020-01-01T00:00:00.000Z"},
		"Rollup": object{"rollup": object{"type": "unsupported", "unsupported": object{}, "function": "show_original"}}, "Maker": object{"created_by": user},
		"Edited": object{"last_edited_time": "2020-01-02T00:00:00.000Z"}, "Editor": object{"last_edited_by": user}, "Button": object{"button": object{}},
		"Verified": object{"verification": object{"state": "verified", "verified_by": user, "date": nil}}, "Strange": object{"unsupported": object{}},
		"Place": object{"place": object{"lat": 52.5, "lon": 13.4, "name": "Berlin"}},
	}
	id, unset := a.row(db, values), a.row(db, nil)
	must(t, a.e.EditPage(unset, values))
	for _, id := range []string{id, unset} {
		got := a.ok("GET", pathPages+"/"+id, nil)["properties"]
		for name, value := range values {
			for kind, want := range value.(object) {
				same(t, want, at(got, name, kind), "%s", kind)
			}
		}
	}
	must(t, a.e.EditPage(id, object{"ID": object{"unique_id": object{"number": 42}}}))
	if p := a.page(id); p.Number("ID") != 42 {
		t.Errorf("unique id = %v, want 42", p.Number("ID"))
	}
}

func TestUnsetValuesOfEveryType(t *testing.T) {
	a, _, _ := full(t)
	got := a.play(`POST pages {"parent":{"database_id":"$db"}} | properties.Maker.created_by.type = "bot" | properties.Relation.has_more = false`)["properties"].(object)
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
			same(t, want, at(p, kind), "%s", name)
		}
		if _, ok := p.(object)[kind]; !ok {
			t.Errorf("%s: nothing under %q", name, kind)
		}
	}
}

func TestMentionsAndEquations(t *testing.T) {
	a, db, dbs := full(t)
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1).(object)
	for _, c := range []struct {
		sent, want object
		plain      string
	}{
		{object{"user": object{"id": maria["id"]}}, object{"type": "user", "user": maria}, "@Maria"},
		{object{"user": object{"id": nobody}}, object{"type": "user", "user": object{"object": "user", "id": nobody}}, "@Anonymous"},
		{object{"date": object{"start": "2026-01-01"}}, object{"type": "date", "date": object{"start": "2026-01-01", "end": nil, "time_zone": nil}}, "2026-01-01"},
		{object{"date": object{"start": "2026-01-01", "end": "2026-01-02"}}, object{"type": "date", "date": object{"start": "2026-01-01", "end": "2026-01-02", "time_zone": nil}}, "2026-01-01 → 2026-01-02"},
		{object{"page": object{"id": undashed(a.row(db, object{"Name": title("Row")}))}}, object{"type": "page", "page": object{"id": a.e.Pages(db)[0].ID}}, "Row"},
		{object{"database": object{"id": dbs.Tasks}}, object{"type": "database", "database": object{"id": dbs.Tasks}}, "Tasks"},
		{object{"template_mention": object{"template_mention_user": "me"}},
			object{"type": "template_mention", "template_mention": object{"type": "template_mention_user", "template_mention_user": "me"}}, "mention"},
		{object{"custom_emoji": object{"id": nobody}}, object{"type": "custom_emoji", "custom_emoji": object{"id": nobody, "name": "", "url": ""}}, "mention"},
		{nil, nil, "e=mc^2"},
	} {
		span := object{"mention": c.sent}
		if c.sent == nil {
			span = object{"equation": object{"expression": c.plain}}
		}
		said := a.ok("POST", "/v1/comments", object{"parent": object{"page_id": a.e.Pages(dbs.Tasks)[0].ID}, "rich_text": list{span}})
		got, _ := at(said, "rich_text", 0, "mention").(object)
		same(t, c.want, got, "%v", c.sent)
		same(t, any(c.plain), at(said, "rich_text", 0, "plain_text"), "%v", c.sent)
	}
}
