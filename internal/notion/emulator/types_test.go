package emulator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var versions = []string{"2022-06-28", "2025-09-03", "2026-03-11"}

// schemaPath returns the path of a database's schema in a version, and target the key and the value
// that point a relation to it.
func (a *api) schemaPath(db string) (path, key, target string) {
	if a.version == "2022-06-28" {
		return "/v1/databases/" + db, "database_id", db
	}
	source := a.sourceOf(db)
	return "/v1/data_sources/" + source, "data_source_id", source
}

// The types of Notion's own client take none of these.
func TestWrongTypes(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, object{"Name": title("Row")})
	rollup := func(key string, v any) object {
		m := object{"function": "count", "relation_property_name": "Relation", "rollup_property_name": "Name"}
		m[key] = v
		return object{"rollup": m}
	}
	words := func(more object) object {
		m := object{"rich_text": list{}}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	span := func(s object) object { return object{"paragraph": object{"rich_text": list{s}}} }
	said := object{"content": "x"}
	for where, cases := range map[string][]struct {
		sent any
		says string // what follows the place
	}{
		"schema": {
			{object{"number": nil}, ".number should be an object, instead was `null`."},
			{object{"number": object{"format": 7}}, ".number.format should be a string or `undefined`, instead was `7`."},
			{object{"formula": object{"expression": true}}, ".formula.expression should be a string or `undefined`, instead was `true`."},
			{rollup("function", "total"), ".rollup.function should be `\"count\"`, "},
			{rollup("relation_property_name", 7), ".rollup.relation_property_name should be a string or `undefined`, instead was `7`."},
			{rollup("rollup_property_name", ""), ".rollup.rollup_property_name should be defined"},
			{rollup("rollup_property_name", "Nope"), "Could not find property with name or id: Nope"},
			{object{"type": "checkbox", "number": object{}}, ".checkbox should be defined, instead was `undefined`."},
			{object{"checkbox": object{}, "description": 7}, ".description should be a string or `undefined`, instead was `7`."},
			{object{"relation": object{}}, ".relation.single_property should be defined, instead was `undefined`."},
			{object{"relation": object{"single_property": true}}, ".relation.single_property should be an object, instead was `true`."},
			{object{"relation": object{"type": "single_property", "dual_property": object{}}}, ".relation.type should be `\"dual_property\"` or `undefined`, instead was `\"single_property\"`."},
			{object{"select": object{"options": nil}}, ".select.options should be an array or `undefined`, instead was `null`."},
			{object{"select": object{"options": list{object{"name": "a", "description": 7}}}}, ".select.options[0].description should be a string or `undefined`, instead was `7`."},
			{object{"unsupported": object{}}, ".unsupported should be not present, instead was `{}`."},
		},
		"block": {
			{object{"type": "quote", "paragraph": words(nil)}, ".type should be `\"paragraph\"` or `undefined`, instead was `\"quote\"`."},
			{object{"object": "page", "paragraph": words(nil)}, ".object should be `\"block\"` or `undefined`, instead was `\"page\"`."},
			{object{"to_do": words(object{"checked": "yes"})}, ".to_do.checked should be a boolean or `undefined`, instead was `\"yes\"`."},
			{object{"heading_1": words(object{"is_toggleable": 1})}, ".heading_1.is_toggleable should be a boolean or `undefined`, instead was `1`."},
			{object{"paragraph": words(object{"color": "mauve"})}, ".paragraph.color should be `\"default\"`, `\"gray\"`,"},
			{object{"paragraph": words(object{"icon": object{"type": "emoji", "external": object{}}})}, ".paragraph.icon.type should be `\"external\"` or `undefined`, instead was `\"emoji\"`."},
			{object{"code": words(nil)}, ".code.language should be `\"abap\"`, "},
			{object{"code": words(object{"language": "go", "caption": "x"})}, ".code.caption should be an array or `undefined`, instead was `\"x\"`."},
			{object{"image": object{}}, ".image.external should be defined, instead was `undefined`."},
			{object{"equation": object{}}, ".equation.expression should be defined, instead was `undefined`."},
			{object{"table_row": object{"cells": list{"x"}}}, ".table_row.cells[0] should be an array, instead was `\"x\"`."},
			{span(object{"type": "mention", "text": said}), ".paragraph.rich_text[0].type should be `\"text\"` or `undefined`, instead was `\"mention\"`."},
			{span(object{"text": said, "annotations": nil}), ".paragraph.rich_text[0].annotations should be an object or `undefined`, instead was `null`."},
			{span(object{"text": said, "annotations": object{"color": "mauve"}}), ".paragraph.rich_text[0].annotations.color should be `\"default\"`, `\"gray\"`,"},
			{span(object{"mention": object{}}), ".paragraph.rich_text[0].mention.user should be defined, instead was `undefined`."},
			{span(object{"mention": object{"user": object{"object": "page", "id": nobody}}}), ".paragraph.rich_text[0].mention.user.object should be `\"user\"` or `undefined`, instead was `\"page\"`."},
		},
		"page": {
			{object{"icon": object{"emoji": 7}}, ".icon.emoji should be a string, instead was `7`."},
			{object{"cover": object{"emoji": "x"}}, ".cover.external should be defined, instead was `undefined`."},
			{object{"is_locked": nil}, ".is_locked should be a boolean or `undefined`, instead was `null`."},
			{object{"properties": object{"Select": object{"select": object{"name": "red", "color": "mauve"}}}}, ".properties.Select.select.color should be `\"default\"`, `\"gray\"`,"},
			{object{"properties": object{"People": object{"people": list{object{"object": "bot", "id": nobody}}}}}, ".properties.People.people[0].object should be `\"user\"` or `undefined`, instead was `\"bot\"`."},
			{object{"properties": object{"Files": object{"files": list{object{"name": "x"}}}}}, ".properties.Files.files[0].external should be defined, instead was `undefined`."},
		},
		"query": {
			{object{"filter": nil}, ".filter should be an object or `undefined`, instead was `null`."},
			{object{"filter": object{"type": "title", "property": "Text", "rich_text": object{"equals": "x"}}}, ".filter.type should be `\"rich_text\"` or `undefined`, instead was `\"title\"`."},
			{object{"filter": object{"type": "date", "timestamp": "created_time", "created_time": object{"past_week": object{}}}}, ".filter.type should be `\"created_time\"` or `undefined`, instead was `\"date\"`."},
			{object{"sorts": list{object{"property": "Name"}}}, ".sorts[0].direction should be `\"ascending\"` or `\"descending\"`, instead was `undefined`."},
			{object{"page_size": nil}, ".page_size should be a number or `undefined`, instead was `null`."},
		},
	} {
		for i, c := range cases {
			for _, version := range versions {
				t.Run(fmt.Sprint(where, " ", i, " ", version), func(t *testing.T) {
					a := a.in(t).as(version)
					path, key, target := a.schemaPath(db)
					method, place, body := "PATCH", "body", c.sent
					switch where {
					case "schema":
						if r, ok := at(c.sent, "relation").(object); ok {
							r[key] = target
							defer delete(r, key)
						}
						place, body = "body.properties.New", object{"properties": object{"New": c.sent}}
					case "block":
						path, place, body = "/v1/blocks/"+id+"/children", "body.children[0]", object{"children": list{c.sent}}
					case "page":
						path = pathPages + "/" + id
					case "query":
						method, path = "POST", path+"/query"
					}
					want := c.says
					if strings.HasPrefix(want, ".") {
						want = "body failed validation: " + place + want
					}
					r := a.do(method, path, body)
					if said, _ := r.body["message"].(string); r.status != badRequest || r.body["code"] != validation || !strings.HasPrefix(said, want) {
						t.Errorf("%v: %d %s\nwant 400 %s", c.sent, r.status, r.text, want)
					}
				})
			}
		}
	}
}

// A word that only other versions know is refused.
func TestWordsOfOtherVersions(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Row")})
	kids := "/v1/blocks/" + id + "/children"
	block := at(a.ok("PATCH", kids, object{"children": list{paragraph("x")}}), "results", 0, "id")
	source := a.sourceOf(dbs.Tasks)
	edited := object{"timestamp": "last_edited_time", "last_edited_time": object{"past_week": object{}}}
	for _, c := range []struct {
		method, path string
		body         object
		refused      map[string]string // version and what it says
	}{
		{"POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "markdown": "x"},
			map[string]string{"2022-06-28": "body failed validation: body.markdown should be not present, instead was `\"x\"`."}},
		{"PATCH", kids, object{"children": list{paragraph("x")}, "after": block},
			map[string]string{"2026-03-11": "body failed validation: body.after should be not present, instead was `\"" + block.(string) + "\"`."}},
		{"POST", "/query", object{"filter": object{"or": list{object{"and": list{edited}}}}},
			map[string]string{"2022-06-28": "body failed validation: body.filter.or[0].and[0].timestamp should be not present, instead was `\"last_edited_time\"`."}},
		{"POST", "/query", object{"filter": object{"or": list{edited}}}, nil},
		{"PATCH", "", object{"properties": object{"New": object{"relation": object{"data_source_id": source, "single_property": object{}}}}},
			map[string]string{"2022-06-28": "body failed validation: body.properties.New.relation.data_source_id should be not present, instead was `\"" + source + "\"`."}},
	} {
		for _, version := range versions {
			a, path := a.as(version), c.path
			if !strings.HasPrefix(path, "/v1/") { // below the schema
				schema, _, _ := a.schemaPath(dbs.Tasks)
				path = schema + path
			}
			if says := c.refused[version]; says != "" {
				a.refused(c.method, path, c.body, badRequest, validation, says)
			} else {
				a.ok(c.method, path, c.body)
			}
		}
	}
}

// Answers have what the types require, whatever a request has left out.
func TestContentIsAnsweredWhole(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Row")})
	link := object{"url": "https://example.com"}
	plain := list{object{
		"type": "text", "text": object{"content": "x", "link": nil}, "plain_text": "x", "href": nil,
		"annotations": object{"bold": false, "italic": false, "strikethrough": false, "underline": false, "code": false, "color": "default"},
	}}
	sent := list{object{"text": object{"content": "x"}}}
	for _, c := range []struct {
		kind       string
		sent, want object
	}{
		{"paragraph", object{"rich_text": sent}, object{"rich_text": plain, "color": "default", "icon": nil}},
		{"paragraph", object{"rich_text": list{}, "icon": object{"emoji": "x"}, "href": "?"}, object{"rich_text": list{}, "color": "default", "icon": object{"type": "emoji", "emoji": "x"}}},
		{"callout", object{"rich_text": list{}, "color": "red_background"}, object{"rich_text": list{}, "color": "red_background", "icon": nil}},
		{"heading_4", object{"rich_text": sent}, object{"rich_text": plain, "color": "default", "is_toggleable": false}},
		{"heading_1", object{"rich_text": list{}, "is_toggleable": true}, object{"rich_text": list{}, "color": "default", "is_toggleable": true}},
		{"to_do", object{"rich_text": list{}}, object{"rich_text": list{}, "color": "default", "checked": false}},
		{"toggle", object{"rich_text": list{}}, object{"rich_text": list{}, "color": "default"}},
		{"template", object{"rich_text": list{}}, object{"rich_text": list{}}},
		{"code", object{"rich_text": list{}, "language": "go"}, object{"rich_text": list{}, "language": "go", "caption": list{}}},
		{"code", object{"rich_text": list{}, "language": "go", "caption": sent}, object{"rich_text": list{}, "language": "go", "caption": plain}},
		{"bookmark", link, object{"url": link["url"], "caption": list{}}},
		{"image", object{"external": link}, object{"type": "external", "external": link, "caption": list{}}},
		{"file", object{"external": link, "caption": sent}, object{"type": "external", "external": link, "caption": plain, "name": ""}},
		{"table", object{"table_width": 1, "children": list{object{"table_row": object{"cells": list{sent}}}}}, object{"table_width": 1.0, "has_column_header": false, "has_row_header": false}},
		{"table_row", object{"cells": list{sent}}, object{"cells": list{plain}}},
		{"table_of_contents", object{}, object{"color": "default"}},
		{"link_to_page", object{"page_id": undashed(id)}, object{"type": "page_id", "page_id": id}},
		{"synced_block", object{"synced_from": nil}, object{"synced_from": nil}},
		{"column_list", object{"children": list{}}, object{}},
		{"divider", object{}, object{}},
	} {
		for _, version := range versions {
			got := a.as(version).ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{object{c.kind: c.sent}}})
			if diff := cmp.Diff(c.want, at(got, "results", 0, c.kind)); diff != "" {
				t.Errorf("%s of %v in %s (-want +got):\n%s", c.kind, c.sent, version, diff)
			}
		}
	}
}

func TestMentionsAreAnsweredWhole(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Row")})
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1).(object)
	for _, c := range []struct {
		sent, want object
		plain      string
	}{
		{object{"user": object{"id": maria["id"]}}, object{"type": "user", "user": maria}, "@" + maria["name"].(string)},
		{object{"user": object{"id": nobody}}, object{"type": "user", "user": object{"object": "user", "id": nobody}}, "@Anonymous"},
		{object{"date": object{"start": "2026-01-01"}}, object{"type": "date", "date": object{"start": "2026-01-01", "end": nil, "time_zone": nil}}, "2026-01-01"},
		{object{"date": object{"start": "2026-01-01", "end": "2026-01-02"}}, object{"type": "date", "date": object{"start": "2026-01-01", "end": "2026-01-02", "time_zone": nil}}, "2026-01-01 → 2026-01-02"},
		{object{"page": object{"id": undashed(id)}}, object{"type": "page", "page": object{"id": id}}, "Row"},
		{object{"database": object{"id": dbs.Tasks}}, object{"type": "database", "database": object{"id": dbs.Tasks}}, "Tasks"},
		{object{"template_mention": object{"template_mention_user": "me"}},
			object{"type": "template_mention", "template_mention": object{"type": "template_mention_user", "template_mention_user": "me"}}, "mention"},
		{object{"custom_emoji": object{"id": nobody}}, object{"type": "custom_emoji", "custom_emoji": object{"id": nobody, "name": "", "url": ""}}, "mention"},
	} {
		said := a.ok("POST", "/v1/comments", object{"parent": object{"page_id": id}, "rich_text": list{object{"mention": c.sent}}})
		got := at(said, "rich_text", 0)
		if diff := cmp.Diff(c.want, at(got, "mention")); diff != "" || at(got, "plain_text") != c.plain {
			t.Errorf("%v reads %q (-want +got):\n%s", c.sent, at(got, "plain_text"), diff)
		}
	}
}

// Of icons, covers and files, answers name the form, and when an address expires.
func TestLooksAndFilesAreAnsweredWhole(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, nil)
	link := object{"url": "https://example.com"}
	kept := object{"url": "https://files.notion.invalid/" + nobody, "expiry_time": "soon"}
	for _, c := range []struct {
		key        string
		sent, want object
	}{
		{"icon", object{"emoji": "x"}, object{"type": "emoji", "emoji": "x"}},
		{"icon", object{"external": link}, object{"type": "external", "external": link}},
		{"icon", object{"icon": object{"name": "book"}}, object{"type": "icon", "icon": object{"name": "book", "color": "gray"}}},
		{"icon", object{"custom_emoji": object{"id": nobody, "name": "x"}}, object{"type": "custom_emoji", "custom_emoji": object{"id": nobody, "name": "x", "url": ""}}},
		{"cover", object{"file_upload": object{"id": nobody}}, object{"type": "file", "file": kept}},
		{"files", object{"name": "x", "external": link}, object{"name": "x", "type": "external", "external": link}},
		{"files", object{"file_upload": object{"id": nobody}}, object{"name": "", "type": "file", "file": kept}},
	} {
		body := object{c.key: c.sent}
		if c.key == "files" {
			body = object{"properties": object{"Files": object{"files": list{c.sent}}}}
		}
		said := a.ok("PATCH", pathPages+"/"+id, body)
		got := said[c.key]
		if c.key == "files" {
			got = at(said, "properties", "Files", "files", 0)
		}
		if file, ok := at(got, "file").(object); ok && file["expiry_time"] != nil {
			file["expiry_time"] = "soon"
		}
		if diff := cmp.Diff(any(c.want), got); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.key, c.sent, diff)
		}
	}
	a25 := a.as("2025-09-03")
	source := "/v1/data_sources/" + a.sourceOf(db)
	if got := a25.ok("PATCH", source, object{"icon": object{"emoji": "x"}}); at(got, "icon", "type") != "emoji" {
		t.Errorf("the data source's icon is %v", got["icon"])
	}
	if got := a25.ok("PATCH", source, object{"icon": nil}); got["icon"] != nil {
		t.Errorf("the data source's icon is %v, want none", got["icon"])
	}
}

// Answers show what a schema says of a property and its options, and both properties of a rollup.
func TestSchemaIsAnsweredWhole(t *testing.T) {
	a, db, _ := full(t)
	got := a.ok("PATCH", "/v1/databases/"+db, object{"properties": object{
		"New":     object{"number": object{}, "description": "how many"},
		"Formula": object{"formula": object{}},
		"Made":    object{"created_time": object{"more": 1}},
		"Select":  object{"select": object{"options": list{object{"name": "red", "description": "stop"}}}},
		"Count":   object{"rollup": object{"function": "count", "relation_property_name": "Relation", "rollup_property_id": "title"}},
	}})["properties"]
	for _, c := range []struct {
		want any
		path []any
	}{
		{object{"format": "number"}, []any{"New", "number"}},
		{"how many", []any{"New", "description"}},
		{object{"expression": "1"}, []any{"Formula", "formula"}},
		{object{}, []any{"Made", "created_time"}},
		{"stop", []any{"Select", "select", "options", 0, "description"}},
		{object{
			"function": "count", "relation_property_name": "Relation", "relation_property_id": unescaped(t, at(got, "Relation", "id")),
			"rollup_property_name": "Name", "rollup_property_id": "title",
		}, []any{"Count", "rollup"}},
	} {
		if diff := cmp.Diff(c.want, at(got, c.path...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.path, diff)
		}
	}
	got = a.ok("PATCH", "/v1/databases/"+db, object{"properties": object{"New": object{"number": object{}, "description": nil}}})["properties"]
	if at(got, "New", "description") != nil {
		t.Errorf("the description is %v, want none", at(got, "New", "description"))
	}
}
