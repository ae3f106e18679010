package emulator_test

import (
	"strings"
	"testing"
)

func paragraph(s string) object { return object{"paragraph": text(s)} }

func TestChildrenAreAppended(t *testing.T) {
	a, _ := seeded(t, "empty")
	const said = `{"rich_text":[{"text":{"content":"`
	a.play(`
POST pages {"parent":{"database_id":"$tasks"},"children":[{"paragraph":` + said + `one"}}]}}]} | $id = id
PATCH blocks/$id/children {"children":[{"type":"to_do","to_do":{"rich_text":[{"text":{"content":"two"}}],"checked":true}},
	{"bulleted_list_item":{"rich_text":[{"text":{"content":"three"}}],"children":[{"paragraph":` + said + `below"}}]}}]}},{"divider":{}}]}
	| #results = 3 | results.1.bulleted_list_item.rich_text.0.plain_text = "three"
GET blocks/$id/children?page_size=1 | has_more = true | type = "block" | $next = next_cursor
GET blocks/$id/children?start_cursor=$next | has_more = false | #results = 3 | results.0.to_do.checked = true | results.0.parent.page_id = "$id"
	| results.0.has_children = false | results.1.has_children = true | $bullet = results.1.id
GET blocks/$bullet/children | #results = 1 | results.0.paragraph.rich_text.0.plain_text = "below" | $below = results.0.id
GET blocks/$below | parent.block_id = "$bullet"
GET blocks/$id | type = "child_page" | has_children = true`)
	if p := a.page("$id"); p.Body() != "one\ntwo\nthree\nbelow\n" {
		t.Errorf("body is %q", p.Body())
	}
}

func TestBlocksGoWhereTheyAreTold(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["id"] = a.row(dbs.Tasks, nil)
	put := func(where string, texts ...string) {
		var children []string
		for _, s := range texts {
			children = append(children, `{"paragraph":{"rich_text":[{"text":{"content":"`+s+`"}}]}}`)
		}
		a.play(`PATCH blocks/$id/children {"children":[` + strings.Join(children, ",") + `]` + where)
	}
	put(`} | $b = results.0.id | $d = results.1.id`, "b", "d")
	put(`,"after":"$b"}`, "c")
	put(`,"position":{"type":"start"}}`, "a")
	put(`,"position":{"type":"after_block","after_block":{"id":"$d"}}}`, "e")
	put(`,"position":{"type":"end"}}`, "f")
	put(`,"after":"$id"} | 404`, "x")
	if got := a.page("$id").Body(); got != "a\nb\nc\nd\ne\nf" {
		t.Errorf("blocks are %q", got)
	}
}

func TestBlockRefusals(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["id"] = a.row(dbs.Tasks, nil)
	said := func(s string) string { return `{"paragraph":{"rich_text":[{"text":{"content":"` + s + `"}}]}}` }
	nested := func(depth int) string {
		return strings.Repeat(`{"paragraph":{"rich_text":[],"children":[`, depth-1) + said("x") + strings.Repeat(`]}}`, depth-1)
	}
	for body, says := range map[string]string{
		`{}`: "children should be defined, instead was ´undefined´.",
		`{"children":[` + strings.TrimSuffix(strings.Repeat(said("x")+",", 101), ",") + `]}`: "children.length should be ≤ ´100´, instead was ´101´.",
		`{"children":{}}`:                 "children should be an array, instead was ´{}´.",
		`{"children":[{}]}`:               "children[0].paragraph should be defined, instead was ´undefined´.",
		`{"children":[{"paragraph":{}}]}`: "children[0].paragraph.rich_text should be defined, instead was ´undefined´.",
		`{"children":[` + said(strings.Repeat("x", 2001)) + `]}`: "children[0].paragraph.rich_text[0].text.content.length should be ≤ ´2000´, instead was ´2001´.",
		`{"children":[` + nested(4) + `]}`: "children[0].paragraph.children[0].paragraph.children[0].paragraph.children should be not present, " +
			`instead was ´[{"paragraph":{"rich_text":[{"text":{"content":"x"}}]}}...´.`,
	} {
		a.play(`PATCH blocks/$id/children ` + body + ` | 400: body.` + says)
	}
	a.play(`
GET blocks/$id/children | results = []
PATCH blocks/$id/children {"children":[` + nested(3) + `]}`)
	must(t, a.e.TrashPage(a.names["id"]))
	a.play(`PATCH blocks/$id/children {"children":[` + said("x") + `]} | 400: ` + errTrashed)
}

func TestComments(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["id"] = a.row(dbs.Tasks, nil)
	const said = `"rich_text":[{"text":{"content":"`
	a.play(`
POST comments {"parent":{"page_id":"$id"},` + said + `one"}}]} | display_name.resolved_name = "dibs" | $discussion = discussion_id
POST comments {"discussion_id":"$discussion",` + said + `two"}}],"display_name":{"type":"custom","custom":{"name":"Sandman"}}} | display_name.resolved_name = "Sandman"
PATCH blocks/$id/children {"children":[{"paragraph":{"rich_text":[]}}]} | $block = results.0.id
POST comments {"parent":{"block_id":"$block"},` + said + `three"}}]}
GET comments?block_id=$id | #results = 2 | results.0.rich_text.0.plain_text = "one" | results.1.rich_text.0.plain_text = "two"
	| results.0.display_name.type = "integration" | results.1.display_name.type = "custom"
GET comments?block_id=$block | #results = 1 | results.0.rich_text.0.plain_text = "three"
GET comments | 400: query failed validation: query.block_id should be defined, instead was ´undefined´.
POST comments {"discussion_id":"$nobody","rich_text":[]} | 404
POST comments {"parent":{"page_id":"$id"}} | 400: body.rich_text should be defined, instead was ´undefined´.
POST comments {"parent":{"page_id":"$id"},"rich_text":[],"display_name":{"type":"custom"}} | 400`)
}

func TestUsers(t *testing.T) {
	a, _ := seeded(t, "empty")
	a.play(`
GET users/me | object = "user" | type = "bot" | bot.owner.type = "workspace" | $me = id
GET users?page_size=2 | results.0.id = "$me" | has_more = true | $next = next_cursor
GET users?start_cursor=$next | #results = 2 | results.0.type = "person" | $person = results.0.id | $name = results.0.name
GET users/$person | name = "$name"
GET users?page_size=x | 400: query failed validation: query.page_size should be a number, instead was ´"x"´.
GET users?start_cursor=x | 400: The start_cursor provided is invalid: x`)
}

func TestSearch(t *testing.T) {
	a, dbs := seeded(t, "demo")
	must(t, a.e.EditPage(a.e.Pages(dbs.Tasks)[7].ID, object{"Notes": text("x")}))
	sorted := func(direction string) string {
		return titles(a.play(`POST search {"sort":{"timestamp":"last_edited_time","direction":"` + direction + `"},"filter":{"property":"object","value":"page"}}`))[0]
	}
	if first, last := sorted("descending"), sorted("ascending"); first != "Show times in the account's own zone" || last == first {
		t.Errorf("the first of the sorted is %q, and %q", first, last)
	}
	a.play(`
POST search {"query":"log","filter":{"property":"object","value":"database"}} | #results = 2
POST search {"query":"SAFARI"} | titles = ["Fix login redirect loop on Safari"]
25 POST search {"filter":{"property":"object","value":"data_source"}} | #results = 3 | results.0.object = "data_source"
POST search {"page_size":1} | has_more = true | $next = next_cursor | $one = results.0.id
POST search {"page_size":1,"start_cursor":"$next"} | $two = results.0.id
POST search {"filter":{"property":"object","value":"data_source"}} | 400`)
	if a.names["one"] == a.names["two"] {
		t.Error("both pages of the search show the same")
	}
}
