package emulator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines returns the texts of a list of blocks.
func lines(answer object) []string {
	out := []string{}
	for _, b := range answer["results"].(list) {
		kind := at(b, "type").(string)
		s, _ := at(b, kind, "rich_text", 0, "plain_text").(string)
		out = append(out, s)
	}
	return out
}

func paragraph(s string) object { return object{"paragraph": text(s)} }

func TestChildrenAreAppended(t *testing.T) {
	a, dbs := seeded(t, "empty")
	created := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "children": list{paragraph("one")}})
	id := created["id"].(string)
	path := "/v1/blocks/" + id + "/children"

	got := a.ok("PATCH", path, object{"children": list{
		object{"type": "to_do", "to_do": object{"rich_text": list{object{"text": object{"content": "two"}}}, "checked": true}},
		object{"bulleted_list_item": object{"rich_text": list{object{"text": object{"content": "three"}}}, "children": list{paragraph("below")}}},
		object{"divider": object{}},
	}})
	if diff := cmp.Diff([]string{"two", "three", ""}, lines(got)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	first := a.ok("GET", path+"?page_size=1", nil)
	if first["has_more"] != true || first["type"] != "block" {
		t.Errorf("the first page is %v", first)
	}
	rest := a.ok("GET", path+"?start_cursor="+first["next_cursor"].(string), nil)
	if diff := cmp.Diff([]string{"two", "three", ""}, lines(rest)); diff != "" || rest["has_more"] != false {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	todo := at(rest, "results", 0).(object)
	if at(todo, "to_do", "checked") != true || at(todo, "parent", "page_id") != id || todo["has_children"] != false {
		t.Errorf("to_do is %v", todo)
	}
	bullet := at(rest, "results", 1).(object)
	below := a.ok("GET", "/v1/blocks/"+bullet["id"].(string)+"/children", nil)
	if diff := cmp.Diff([]string{"below"}, lines(below)); diff != "" || bullet["has_children"] != true {
		t.Errorf("below the bullet (-want +got):\n%s", diff)
	}
	if got := a.ok("GET", "/v1/blocks/"+at(below, "results", 0, "id").(string), nil); at(got, "parent", "block_id") != bullet["id"] {
		t.Errorf("nested block is %v", got)
	}
	if p, _ := a.e.Page(id); p.Body() != "one\ntwo\nthree\nbelow\n" {
		t.Errorf("body is %q", p.Body())
	}
	if got := a.ok("GET", "/v1/blocks/"+id, nil); got["type"] != "child_page" || got["has_children"] != true {
		t.Errorf("the page as a block is %v", got)
	}
}

func TestBlocksGoWhereTheyAreTold(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	path := "/v1/blocks/" + id + "/children"
	ids := a.ok("PATCH", path, object{"children": list{paragraph("b"), paragraph("d")}})["results"]
	b, d := at(ids, 0, "id"), at(ids, 1, "id")
	a.ok("PATCH", path, object{"children": list{paragraph("c")}, "after": b})
	a.ok("PATCH", path, object{"children": list{paragraph("a")}, "position": object{"type": "start"}})
	a.ok("PATCH", path, object{"children": list{paragraph("e")}, "position": object{"type": "after_block", "after_block": object{"id": d}}})
	a.ok("PATCH", path, object{"children": list{paragraph("f")}, "position": object{"type": "end"}})
	if got := strings.Join(lines(a.ok("GET", path, nil)), ""); got != "abcdef" {
		t.Errorf("blocks are %s, want abcdef", got)
	}
	a.refused("PATCH", path, object{"children": list{paragraph("x")}, "after": id}, http.StatusNotFound, "object_not_found", "")
}

func TestBlockRefusals(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	many := list{}
	for i := range 101 {
		many = append(many, paragraph(fmt.Sprint(i)))
	}
	nested := func(depth int) object {
		b := paragraph("x")
		for range depth - 1 {
			b = object{"paragraph": object{"rich_text": list{}, "children": list{b}}}
		}
		return b
	}
	const body = "body failed validation: body."
	for _, c := range []struct {
		name    string
		body    object
		message string
	}{
		{"no children", object{}, body + "children should be defined, instead was `undefined`."},
		{"too many", object{"children": many}, body + "children.length should be ≤ `100`, instead was `101`."},
		{"no list", object{"children": object{}}, body + "children should be an array, instead was `{}`."},
		{"no type", object{"children": list{object{}}}, body + "children[0].paragraph should be defined, instead was `undefined`."},
		{"no text", object{"children": list{object{"paragraph": object{}}}}, body + "children[0].paragraph.rich_text should be defined, instead was `undefined`."},
		{"too long", object{"children": list{paragraph(strings.Repeat("x", 2001))}},
			body + "children[0].paragraph.rich_text[0].text.content.length should be ≤ `2000`, instead was `2001`."},
		{"too deep", object{"children": list{nested(4)}},
			body + "children[0].paragraph.children[0].paragraph.children[0].paragraph.children should be not present, instead was `[{\"paragraph\":{\"rich_text\":[{\"text\":{\"content\":\"x\"}}]}}...`."},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := a.in(t)
			a.refused("PATCH", "/v1/blocks/"+id+"/children", c.body, badRequest, validation, c.message)
			if n := len(a.ok("GET", "/v1/blocks/"+id+"/children", nil)["results"].(list)); n != 0 {
				t.Errorf("%d blocks after a refusal", n)
			}
		})
	}
	a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{nested(3)}})
	if err := a.e.TrashPage(id); err != nil {
		t.Fatal(err)
	}
	a.refused("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph("x")}}, badRequest, validation, errTrashed)
}

func TestComments(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	first := a.ok("POST", "/v1/comments", object{"parent": object{"page_id": id}, "rich_text": text("one")["rich_text"]})
	a.ok("POST", "/v1/comments", object{"discussion_id": first["discussion_id"], "rich_text": text("two")["rich_text"]})
	block := at(a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph("x")}}), "results", 0, "id").(string)
	a.ok("POST", "/v1/comments", object{"parent": object{"block_id": block}, "rich_text": text("three")["rich_text"]})
	for on, want := range map[string][]string{id: {"one", "two"}, block: {"three"}} {
		var got []string
		for _, c := range a.ok("GET", "/v1/comments?block_id="+on, nil)["results"].(list) {
			got = append(got, at(c, "rich_text", 0, "plain_text").(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("comments (-want +got):\n%s", diff)
		}
	}
	a.refused("GET", "/v1/comments", nil, badRequest, validation, "query failed validation: query.block_id should be defined, instead was `undefined`.")
	a.refused("POST", "/v1/comments", object{"discussion_id": nobody, "rich_text": list{}}, http.StatusNotFound, "object_not_found", "")
	a.refused("POST", "/v1/comments", object{"parent": object{"page_id": id}}, badRequest, validation, "body failed validation: body.rich_text should be defined, instead was `undefined`.")
}

func TestUsers(t *testing.T) {
	a, _ := seeded(t, "empty")
	me := a.ok("GET", "/v1/users/me", nil)
	if me["object"] != "user" || me["type"] != "bot" || at(me, "bot", "owner", "type") != "workspace" {
		t.Errorf("me is %v", me)
	}
	all := a.ok("GET", "/v1/users?page_size=2", nil)
	if at(all, "results", 0, "id") != me["id"] || all["has_more"] != true {
		t.Errorf("users are %v", all)
	}
	rest := a.ok("GET", "/v1/users?start_cursor="+all["next_cursor"].(string), nil)
	person := at(rest, "results", 0).(object)
	if person["type"] != "person" || len(rest["results"].(list)) != 2 {
		t.Errorf("the other users are %v", rest)
	}
	if got := a.ok("GET", "/v1/users/"+person["id"].(string), nil); got["name"] != person["name"] {
		t.Errorf("one user is %v", got)
	}
	a.refused("GET", "/v1/users?page_size=x", nil, badRequest, validation, "query failed validation: query.page_size should be a number, instead was `\"x\"`.")
	a.refused("GET", "/v1/users?start_cursor=x", nil, badRequest, validation, "The start_cursor provided is invalid: x")
}

func TestSearch(t *testing.T) {
	a, dbs := seeded(t, "demo")
	object22 := func(value string) object { return object{"property": "object", "value": value} }
	got := a.ok("POST", "/v1/search", object{"query": "log", "filter": object22("database")})
	if n := len(got["results"].(list)); n != 2 {
		t.Errorf("%d databases with log in their title, want 2", n)
	}
	got = a.ok("POST", "/v1/search", object{"query": "SAFARI"})
	if diff := cmp.Diff([]string{"Fix login redirect loop on Safari"}, titles(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = a.as("2025-09-03").ok("POST", "/v1/search", object{"filter": object22("data_source")})
	if n := len(got["results"].(list)); n != 3 || at(got, "results", 0, "object") != "data_source" {
		t.Errorf("data sources are %v", got["results"])
	}
	if err := a.e.EditPage(a.e.Pages(dbs.Tasks)[7].ID, object{"Notes": text("x")}); err != nil {
		t.Fatal(err)
	}
	for direction, first := range map[string]bool{"descending": true, "ascending": false} {
		got = a.ok("POST", "/v1/search", object{"sort": object{"timestamp": "last_edited_time", "direction": direction}, "filter": object22("page")})
		if ts := titles(got); (ts[0] == "Show times in the account's own zone") != first {
			t.Errorf("%s: the first is %q", direction, ts[0])
		}
	}
	one := a.ok("POST", "/v1/search", object{"page_size": 1})
	two := a.ok("POST", "/v1/search", object{"page_size": 1, "start_cursor": one["next_cursor"]})
	if one["has_more"] != true || at(one, "results", 0, "id") == at(two, "results", 0, "id") {
		t.Errorf("pages of the search: %v, %v", one, two)
	}
	a.refused("POST", "/v1/search", object{"filter": object22("data_source")}, badRequest, validation, "")
}
