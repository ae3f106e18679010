package emulator_test

import (
	"encoding/json"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
)

// spec is Markdown as answers show it.
const spec = "# Goal\nSay **what** it does.\n1. first\n\t- nested\n\t\t> deeper\n2. second\n- [x] done\n- [ ] not done\n```go\nif x {\n\treturn\n}\n```\n---\n"

func TestMarkdownIsTakenAndServed(t *testing.T) {
	a, _ := seeded(t, "empty")
	quoted := func(s string) string { return string(need(json.Marshal(s))(t)) }
	a.play(`
25 POST pages {"parent":{"database_id":"$tasks"},"markdown":` + quoted(strings.ReplaceAll(spec, "\n", "\r\n")+"\n\n") + `} | $id = id
25 GET pages/$id/markdown | object = "page_markdown" | id = "$id" | markdown = ` + quoted(spec) + ` | truncated = false | unknown_block_ids = []
GET blocks/$id/children | #results = 8 | results.2.has_children = true`)
	must(t, a.e.WriteMarkdown(a.names["id"], "and more"))
	a.play(`25 GET pages/$id/markdown | markdown = ` + quoted(spec+"and more\n"))
}

func TestMarkdownOfBlocks(t *testing.T) {
	a, _ := seeded(t, "empty")
	const said = `"rich_text":[{"text":{"content":"`
	a.play(`
POST pages {"parent":{"database_id":"$tasks"},"children":[{"toggle":{` + said + `more"}}],"children":[{"paragraph":{` + said + `inside"}}]}}]}},
	{"callout":{` + said + `callout"}}]}},{"heading_3":{` + said + `heading_3"}}]}},{"equation":{"expression":"e=mc^2"}},{"bookmark":{"url":"https://example.com"}}]} | $id = id
POST pages {"parent":{"page_id":"$id"},"properties":{"title":[{"text":{"content":"Below"}}]}} | $below = id
POST pages {"parent":{"page_id":"$id"},"properties":{"title":[{"text":{"content":"Secret"}}]}} | $secret = id`)
	must(t, a.e.UnsharePage(a.names["secret"]))
	// Blocks without Markdown are not listed; blocks that are not loaded are.
	shown := a.play(`
25 GET pages/$secret/markdown | 404
25 GET pages/$id/markdown | truncated = true | unknown_block_ids = ["$secret"]`)["markdown"].(string)
	for _, want := range []string{
		"<details>\n<summary>more</summary>\n\tinside\n</details>\n<callout>\n\tcallout\n</callout>\n### heading_3\n$$\ne=mc^2\n$$\n",
		`alt="bookmark"/>`, undashed(a.names["below"]), ">Below</page>\n", undashed(a.names["secret"]) + `" alt="child_page"/>`,
	} {
		if !strings.Contains(shown, want) || strings.Contains(shown, "Secret") {
			t.Errorf("no %q in:\n%s", want, shown)
		}
	}
}

func TestMarkdownOfALongPageIsTruncated(t *testing.T) {
	a, _ := seeded(t, "empty")
	a.play(`25 POST pages {"parent":{"database_id":"$tasks"},"markdown":"one\ntwo\n- three\n\t- four\nfive\n"} | $id = id`)
	must(t, a.e.SetMarkdownLimit(2))
	shown := a.play(`25 GET pages/$id/markdown | truncated = true | #unknown_block_ids = 2 | $third = unknown_block_ids.0`)["markdown"].(string)
	if strings.Count(shown, "<unknown") != 2 || !strings.HasPrefix(shown, "one\ntwo\n<unknown url=") {
		t.Errorf("shown is %q", shown)
	}
	a.play(`25 GET pages/$third/markdown | markdown = "- three\n\t- four\n" | truncated = false`)
}

func TestMarkdownRefused(t *testing.T) {
	a, _ := seeded(t, "empty")
	a.play(`
25 POST pages {"parent":{"database_id":"$tasks"},"markdown":"x","children":[]} | 400
25 POST pages {"parent":{"database_id":"$tasks"},"markdown":7} | 400
POST pages {"parent":{"database_id":"$tasks"}} | $id = id
22 GET pages/$id/markdown | 400 invalid_request_url
POST comments {"parent":{"page_id":"$id"},"markdown":"x","rich_text":[]} | 400
POST comments {"parent":{"page_id":"$id"},"markdown":"<mention-user url=\"nobody\">x</mention-user>"} | 400`)
}

func TestCommentsAsMarkdown(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["id"], a.names["maria"] = a.row(dbs.Tasks, nil), need(a.e.AddPerson("Maria", ""))(t)
	a.play(`POST comments {"parent":{"page_id":"$id"},"display_name":{"type":"custom","custom":{"name":"Sandman"}},
	"markdown":"Which one, <mention-user url=\"$maria\">Maria</mention-user>?"}`)
	must(t, a.e.AddComment(a.names["id"], a.names["maria"], "the second"))
	got := a.e.Comments(a.names["id"])
	for i := range got {
		got[i].ID = ""
	}
	same(t, []emulator.Comment{{Name: "Sandman", Text: "Which one, @Maria?", Mentions: []string{a.names["maria"]}}, {Text: "the second"}}, got, "comments")
	a.play(`GET comments?block_id=$id | results.0.display_name.resolved_name = "Sandman" | results.1.display_name.resolved_name = "Maria"`)
}
