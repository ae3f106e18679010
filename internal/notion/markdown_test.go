package notion_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
)

// wrote makes a task whose page says that.
func (w *world) wrote(markdown string) task.ID {
	w.Helper()
	id := w.page(props{"Name": title("Read me")})
	must(w, w.emulator.WriteMarkdown(string(id), markdown))
	w.emulator.ResetRequests()
	return id
}

func TestMarkdownOfALongPageIsWhole(t *testing.T) {
	inWorld(t, func(w *world) {
		const long = "one\n- two\n\t- three\n\t\t- four\nfive\n"
		id := w.wrote(long)
		for limit, want := range map[int]int{0: 1, 4: 2, 3: 3, 2: 3, 1: 5} {
			must(t, w.emulator.SetMarkdownLimit(limit))
			w.sent()
			same(t, notion.Markdown{Text: long}, need(w.client.Markdown(w.Context(), id))(w), "%d blocks in an answer", limit)
			w.took(want, fmt.Sprint(limit, " blocks in an answer"))
		}
	})
}

func TestMarkdownIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.wrote(strings.Repeat("a line\n", 30))
		must(t, w.emulator.SetMarkdownLimit(1))
		md, err := w.client.Markdown(w.Context(), id)
		if err != nil || strings.Count(md.Text, "a line\n") != 21 || len(md.Missing) != 9 || !strings.HasPrefix(md.Missing[0], "paragraph, https://") {
			t.Errorf("%v: %q, without %q", err, md.Text, md.Missing)
		}
		w.took(21, "thirty blocks")
	})
}

func TestMarkdownNamesWhatItDoesNotShow(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.wrote("before\n")
		w.answering("/markdown", func(body map[string]any) {
			if body["id"] == string(id) {
				body["markdown"] = "before\n<unknown url=\"https://www.notion.so/a\nb\" alt=\"x\"/>\n" +
					"<unknown url=\"https://www.notion.so/0123\" alt=\"bookmark\u202e\"/>\n\t<unknown/>\nin a <unknown alt=\"line\"/> of text\n"
				body["unknown_block_ids"] = []any{"11111111-2222-3333-4444-555555555555", "nonsense", 7, string(id)}[:2]
			}
		})
		md := need(w.client.Markdown(w.Context(), id))(w)
		same(w, []string{"a part of the page, 11111111-2222-3333-4444-555555555555", "bookmark, https://www.notion.so/0123", "a block"}, md.Missing, "missing")
	})
}

func TestMarkdownIsPlain(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.wrote("a\x1b[2Jb\u202e\n\u200btab\there\n")
		same(w, "ab\ntab\there\n", need(w.client.Markdown(w.Context(), id))(w).Text, "Markdown")
		must(t, w.emulator.AddComment(string(id), "", "look\x1b]0;x\x07 here"))
		comments, err := w.client.Comments(w.Context(), id)
		if err != nil || len(comments) != 1 || comments[0].Text != "look here" {
			t.Errorf("%+v, %v", comments, err)
		}
		must(t, w.emulator.EditPage(string(id), props{"Name": title("Fix\x1b[31m it\u202e"), "note": richText("a\x07\nb")}))
		if read := w.get(w.tasks(notion.TaskSchema{}), id); read.Title != "Fix it" || read.Note != "a\nb" {
			t.Errorf("%+v", read)
		}
	})
}

func TestMarkdownFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  emulator.Fault
		kind   claim.StoreErrorKind
		landed claim.Landed
		said   string
		sent   int
	}{
		"no capability": {emulator.Fault{Kind: emulator.Forbidden403}, claim.Refused, claim.LandedNo, "capabilities", 1},
		"for a while":   {emulator.Fault{Kind: emulator.HTML502, Times: 2}, 0, claim.LandedNo, "", 3},
		"for long":      {emulator.Fault{Kind: emulator.HTML502}, claim.Unavailable, claim.LandedUnknown, "502", 4},
	} {
		inWorld(t, func(w *world) {
			id := w.wrote("text\n")
			tt.fault.Method, tt.fault.Path = http.MethodGet, "/v1/pages/*/markdown"
			w.emulator.Inject(tt.fault)
			md, err := w.client.Markdown(w.Context(), id)
			w.took(tt.sent, name)
			switch {
			case tt.said == "":
				must(w, err)
				same(w, "text\n", md.Text, "%s", name)
			default:
				failed(w, err, tt.kind, tt.landed, tt.said)
			}
		})
	}
	inWorld(t, func(w *world) {
		id := w.wrote("text\n")
		w.answering("/markdown", func(body map[string]any) { delete(body, "markdown") })
		_, err := w.client.Markdown(w.Context(), id)
		failed(w, err, claim.Unavailable, claim.LandedUnknown, "without Markdown")
		w.emulator.Inject(emulator.Fault{Kind: emulator.Forbidden403, Path: "/v1/comments"})
		_, err = w.client.Comments(w.Context(), id)
		failed(w, err, claim.Refused, claim.LandedNo, "to read comments the connection needs a capability that is off by default")
	})
}

// A part that is not shown to the connection is named; the rest is there.
func TestMarkdownWithoutAPart(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.wrote("one\ntwo\nthree\n")
		must(t, w.emulator.SetMarkdownLimit(2))
		w.through(func(req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/markdown") && !strings.Contains(req.URL.Path, string(id)) {
				req.URL.Path = "/v1/pages/11111111-2222-3333-4444-555555555555/markdown"
			}
		})
		md, err := w.client.Markdown(w.Context(), id)
		if err != nil || !strings.HasPrefix(md.Text, "one\ntwo\n<unknown") || len(md.Missing) != 1 || !strings.HasPrefix(md.Missing[0], "paragraph, ") {
			t.Errorf("%v: %+v", err, md)
		}
	})
}
