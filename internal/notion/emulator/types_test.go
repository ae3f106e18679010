package emulator_test

import (
	"fmt"
	"strings"
	"testing"
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
		for _, c := range cases {
			for _, version := range versions {
				a := a.as(version)
				path, key, target := a.schemaPath(db)
				method, place, body := "PATCH", "body", c.sent
				switch where {
				case "schema":
					if r, ok := at(c.sent, "relation").(object); ok {
						delete(r, "database_id")
						delete(r, "data_source_id")
						r[key] = target
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
					t.Errorf("%s %v: %d %s\nwant 400 %s", version, c.sent, r.status, r.text, want)
				}
			}
		}
	}
}

// A word that only other versions know is refused.
func TestWordsOfOtherVersions(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["row"] = a.row(dbs.Tasks, object{"Name": title("Row")})
	const not, edited = " | 400: body.%s should be not present, instead was ´%s´.", `{"timestamp":"last_edited_time","last_edited_time":{"past_week":{}}}`
	a.play(`PATCH blocks/$row/children {"children":[{"paragraph":{"rich_text":[]}}]} | $block = results.0.id`)
	for i, old := range []bool{true, false, false} {
		version, schema := []string{"22", "25", "26"}[i], "data_sources/$source"
		if old {
			schema = "databases/$tasks"
		}
		refused := func(are bool, place, was string) string {
			if !are {
				return "\n"
			}
			return fmt.Sprintf(not, place, was) + "\n"
		}
		a.play(version + ` POST pages {"parent":{"database_id":"$tasks"},"markdown":"x"}` + refused(old, "markdown", `"x"`) +
			version + ` PATCH blocks/$row/children {"children":[{"paragraph":{"rich_text":[]}}],"after":"$block"}` + refused(i == 2, "after", `"$block"`) +
			version + ` POST ` + schema + `/query {"filter":{"or":[{"and":[` + edited + `]}]}}` + refused(old, "filter.or[0].and[0].timestamp", `"last_edited_time"`) +
			version + ` POST ` + schema + `/query {"filter":{"or":[` + edited + `]}}` + "\n" +
			version + ` PATCH ` + schema + ` {"properties":{"New":{"relation":{"data_source_id":"$source","single_property":{}}}}}` + refused(old, "properties.New.relation.data_source_id", `"$source"`))
	}
}

// Answers have what a request has left out. The test of Notion's own types knows of the rest.
func TestContentIsAnsweredWhole(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["row"] = a.row(dbs.Tasks, object{"Name": title("Row")})
	a.names["bare"] = undashed(a.names["row"])
	const link = `{"url":"https://example.com"}`
	for _, c := range [][3]string{
		{"paragraph", `{"rich_text":[],"icon":{"emoji":"x"},"href":"?"}`, `{"rich_text":[],"color":"default","icon":{"type":"emoji","emoji":"x"}}`},
		{"callout", `{"rich_text":[],"color":"red_background"}`, `{"rich_text":[],"color":"red_background","icon":null}`},
		{"heading_4", `{"rich_text":[]}`, `{"rich_text":[],"color":"default","is_toggleable":false}`},
		{"heading_1", `{"rich_text":[],"is_toggleable":true}`, `{"rich_text":[],"color":"default","is_toggleable":true}`},
		{"to_do", `{"rich_text":[]}`, `{"rich_text":[],"color":"default","checked":false}`},
		{"template", `{"rich_text":[]}`, `{"rich_text":[]}`},
		{"code", `{"rich_text":[],"language":"go"}`, `{"rich_text":[],"language":"go","caption":[]}`},
		{"image", `{"external":` + link + `}`, `{"type":"external","external":` + link + `,"caption":[]}`},
		{"file", `{"external":` + link + `}`, `{"type":"external","external":` + link + `,"caption":[],"name":""}`},
		{"table", `{"table_width":1,"children":[{"table_row":{"cells":[[]]}}]}`, `{"table_width":1,"has_column_header":false,"has_row_header":false}`},
		{"table_row", `{"cells":[[]]}`, `{"cells":[[]]}`},
		{"table_of_contents", `{}`, `{"color":"default"}`},
		{"link_to_page", `{"page_id":"$bare"}`, `{"type":"page_id","page_id":"$row"}`},
		{"synced_block", `{"synced_from":null}`, `{"synced_from":null}`},
		{"column_list", `{"children":[]}`, `{}`},
		{"divider", `{}`, `{}`},
	} {
		a.play(`PATCH blocks/$row/children {"children":[{"` + c[0] + `":` + c[1] + `}]} | results.0.` + c[0] + ` = ` + c[2])
	}
	// Of icons, covers and files, answers name the form, and when an address expires.
	must(t, a.e.EditSchema(dbs.Tasks, object{"Files": object{"files": object{}}}))
	a.play(`
PATCH pages/$row {"icon":{"external":` + link + `}} | icon = {"type":"external","external":` + link + `}
PATCH pages/$row {"icon":{"icon":{"name":"book"}}} | icon = {"type":"icon","icon":{"name":"book","color":"gray"}}
PATCH pages/$row {"icon":{"custom_emoji":{"id":"$nobody","name":"x"}}} | icon = {"type":"custom_emoji","custom_emoji":{"id":"$nobody","name":"x","url":""}}
PATCH pages/$row {"cover":{"file_upload":{"id":"$nobody"}}} | cover.type = "file" | cover.file.url = "https://files.notion.invalid/$nobody" | $time = cover.file.expiry_time
PATCH pages/$row {"properties":{"Files":{"files":[{"file_upload":{"id":"$nobody"}},{"name":"x","external":` + link + `}]}}}
	| properties.Files.files.0.name = "" | properties.Files.files.0.type = "file" | $time = properties.Files.files.0.file.expiry_time
	| properties.Files.files.1 = {"name":"x","type":"external","external":` + link + `}`)
}
