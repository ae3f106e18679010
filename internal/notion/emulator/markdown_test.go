package emulator_test

import (
	"net/http"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// spec is Markdown as answers show it.
const spec = "# Goal\nSay **what** it does.\n1. first\n\t- nested\n\t\t> deeper\n2. second\n- [x] done\n- [ ] not done\n```go\nif x {\n\treturn\n}\n```\n---\n"

func (a *api) markdown(id string) object {
	a.t.Helper()
	got := a.as("2025-09-03").ok("GET", pathPages+"/"+id+"/markdown", nil)
	delete(got, "request_id")
	return got
}

func TestMarkdownIsTakenAndServed(t *testing.T) {
	a, dbs := seeded(t, "empty")
	created := a.as("2025-09-03").ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "markdown": strings.ReplaceAll(spec, "\n", "\r\n") + "\n\n"})
	id := created["id"].(string)
	got := a.markdown(id)
	if diff := cmp.Diff(object{"object": "page_markdown", "id": id, "markdown": spec, "truncated": false, "unknown_block_ids": list{}}, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if kids := a.ok("GET", "/v1/blocks/"+id+"/children", nil); len(kids["results"].(list)) != 8 || at(kids, "results", 2, "has_children") != true {
		t.Errorf("the blocks are %v", kids)
	}
	if err := a.e.WriteMarkdown(id, "and more"); err != nil {
		t.Fatal(err)
	}
	if got := a.markdown(id)["markdown"]; got != spec+"and more\n" {
		t.Errorf("after a person wrote: %q", got)
	}
}

func TestMarkdownOfBlocks(t *testing.T) {
	a, dbs := seeded(t, "empty")
	kid := func(kind string, more object) object {
		more["rich_text"] = list{object{"text": object{"content": kind}}}
		return object{kind: more}
	}
	id := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "children": list{
		object{"toggle": object{"rich_text": list{object{"text": object{"content": "more"}}}, "children": list{paragraph("inside")}}},
		kid("callout", object{}), kid("heading_3", object{}), object{"equation": object{"expression": "e=mc^2"}},
		object{"bookmark": object{"url": "https://example.com"}},
	}})["id"].(string)
	child := a.ok("POST", pathPages, object{"parent": object{"page_id": id}, "properties": object{"title": text("Below")["rich_text"]}})["id"].(string)
	secret := a.ok("POST", pathPages, object{"parent": object{"page_id": id}, "properties": object{"title": text("Secret")["rich_text"]}})["id"].(string)
	if err := a.e.UnsharePage(secret); err != nil {
		t.Fatal(err)
	}
	got := a.markdown(id)
	bare := func(id string) string { return strings.ReplaceAll(id, "-", "") }
	said := got["markdown"].(string)
	for _, want := range []string{
		"<details>\n<summary>more</summary>\n\tinside\n</details>\n<callout>\n\tcallout\n</callout>\n### heading_3\n$$\ne=mc^2\n$$\n",
		`alt="bookmark"/>`, bare(child), ">Below</page>\n", bare(secret) + `" alt="child_page"/>`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	// Blocks without Markdown are not listed; blocks that are not loaded are.
	if diff := cmp.Diff(list{secret}, got["unknown_block_ids"]); diff != "" || got["truncated"] != true || strings.Contains(said, "Secret") {
		t.Errorf("%v (-want +got):\n%s", got, diff)
	}
	a.as("2025-09-03").refused("GET", pathPages+"/"+secret+"/markdown", nil, http.StatusNotFound, "object_not_found", "")
}

func TestMarkdownOfALongPageIsTruncated(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.as("2025-09-03").ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "markdown": "one\ntwo\n- three\n\t- four\nfive\n"})["id"].(string)
	if err := a.e.SetMarkdownLimit(2); err != nil {
		t.Fatal(err)
	}
	got := a.markdown(id)
	ids := got["unknown_block_ids"].(list)
	if got["truncated"] != true || len(ids) != 2 || strings.Count(got["markdown"].(string), "<unknown") != 2 || !strings.HasPrefix(got["markdown"].(string), "one\ntwo\n<unknown url=") {
		t.Fatalf("answer %v", got)
	}
	if rest := a.markdown(ids[0].(string)); rest["markdown"] != "- three\n\t- four\n" || rest["truncated"] != false {
		t.Errorf("the third block is %v", rest)
	}
}

func TestMarkdownRefused(t *testing.T) {
	a, dbs := seeded(t, "empty")
	parent := object{"database_id": dbs.Tasks}
	for _, body := range []object{
		{"parent": parent, "markdown": "x", "children": list{}},
		{"parent": parent, "markdown": 7},
	} {
		a.as("2025-09-03").refused("POST", pathPages, body, http.StatusBadRequest, "validation_error", "")
	}
	id := a.ok("POST", pathPages, object{"parent": parent})["id"].(string)
	a.refused("GET", pathPages+"/"+id+"/markdown", nil, http.StatusBadRequest, "invalid_request_url", "") // the version is too old
	a.refused("POST", "/v1/comments", object{"parent": object{"page_id": id}, "markdown": "x", "rich_text": list{}}, http.StatusBadRequest, "validation_error", "")
	a.refused("POST", "/v1/comments", object{"parent": object{"page_id": id}, "markdown": `<mention-user url="nobody">x</mention-user>`}, http.StatusBadRequest, "validation_error", "")
}

func TestCommentsAsMarkdown(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}})["id"].(string)
	maria, err := a.e.AddPerson("Maria", "")
	if err != nil {
		t.Fatal(err)
	}
	a.ok("POST", "/v1/comments", object{
		"parent": object{"page_id": id}, "display_name": object{"type": "custom", "custom": object{"name": "Sandman"}},
		"markdown": `Which one, <mention-user url="` + maria + `">Maria</mention-user>?`,
	})
	if err := a.e.AddComment(id, maria, "the second"); err != nil {
		t.Fatal(err)
	}
	want := []emulator.Comment{{Name: "Sandman", Text: "Which one, @Maria?", Mentions: []string{maria}}, {Text: "the second"}}
	got := a.e.Comments(id)
	for i := range got {
		got[i].ID = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
	shown := a.ok("GET", "/v1/comments?block_id="+id, nil)
	for i, name := range []string{"Sandman", "Maria"} {
		if got := at(shown, "results", i, "display_name", "resolved_name"); got != name {
			t.Errorf("comment %d is %v's, want %s's", i, got, name)
		}
	}
}
