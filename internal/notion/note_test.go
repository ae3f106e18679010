package notion_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
)

const noteLine = "Blocked: no key — Sandman, 2026-11-22 14:02 UTC"

// block reads the page and blocks the task, as a claim does.
func (w *world) block(tasks *notion.Tasks, id task.ID, line string) claim.Reading {
	w.Helper()
	w.get(tasks, id)
	return need(tasks.Write(w.Context(), id, claim.Write{Status: new(task.Blocked), Note: new(line)}))(w)
}

func span(content string, more props) props {
	s := props{"text": props{"content": content}}
	for key, v := range more {
		s[key] = v
	}
	return s
}

// A page that the mirror has asked for is answered late, with a note from before a person
// changed it. The write that follows the visit's own read does not go by that.
func TestNoteIsThatOfTheVisit(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Fix the login")})
		defer w.emulator.Inject(emulator.Fault{Kind: emulator.DelayAnswer, Delay: time.Second, Method: http.MethodGet, Times: 1})()
		mirrored := make(chan struct{})
		go func() {
			defer close(mirrored)
			w.get(tasks, id)
		}()
		time.Sleep(100 * time.Millisecond)
		must(w, w.emulator.EditPage(string(id), props{"note": props{"rich_text": []any{span("Mind the dog", nil)}}}))
		visit := need(tasks.Permit(w.Context(), 2))(w)
		need(tasks.Get(visit, id))(w)
		<-mirrored
		need(tasks.Write(visit, id, claim.Write{Status: new(task.Blocked), Note: new(noteLine)}))(w)
		same(w, "Mind the dog\n"+noteLine, w.get(tasks, id).Note, "note")
	})
}

// What a person wrote in the note stays what it is, with its links, mentions and colours.
func TestNoteKeepsWhatOthersWrote(t *testing.T) {
	const maria = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"
	bold := props{"annotations": props{"bold": true, "italic": false, "strikethrough": false, "underline": false, "code": false, "color": "red"}}
	link := props{"text": props{"content": "the vault", "link": props{"url": "https://vault.example/"}}}
	user := props{"mention": props{"type": "user", "user": props{"id": maria}}}
	for _, tc := range []struct {
		name   string
		before []any
		want   string
		keeps  int // how many of the spans stay as they are
	}{
		{"nothing", []any{}, noteLine, 0},
		{"ours", []any{span("Done — Oracle, 2026-11-21 09:00 UTC", nil)}, noteLine, 0},
		{"theirs", []any{span("Mind the dog", bold), span(", see ", nil), link, span(". Ask ", nil), user}, "Mind the dog, see the vault. Ask @Maria\n" + noteLine, 5},
		{
			"theirs, and ours in pieces",
			[]any{user, span(" has it.\nDone — Or", bold), span("acle, 2026-11-21 09:00 UTC", nil)}, "@Maria has it.\n" + noteLine, 1,
		},
		{"an equation and a day", []any{props{"equation": props{"expression": "e=mc^2"}}, props{"mention": props{"type": "date", "date": props{"start": "2026-11-22"}}}}, "e=mc^22026-11-22\n" + noteLine, 2},
	} {
		inWorld(t, func(w *world) {
			tasks := w.tasks(notion.TaskSchema{})
			id := w.page(props{"Name": title("Fix the login"), "note": props{"rich_text": tc.before}})
			before := w.note(id)
			w.sent()
			if got := w.block(tasks, id, noteLine); got.Task.Note != tc.want || got.Task.Status != task.Blocked {
				w.Errorf("%s with the note %q, want BLOCKED with %q", got.Task.Status, got.Task.Note, tc.want)
			}
			w.took(2, "to read and write")
			same(w, before[:tc.keeps], w.note(id)[:tc.keeps], "%s: what was there", tc.name)
			same(w, tc.want, w.get(tasks, id).Note, "%s: note", tc.name)
		})
	}
}

// note is the note as Notion has it.
func (w *world) note(id task.ID) []any { return w.look(id).Value("note").([]any) }

// A note that cannot be written back as it is, is left as it is.
func TestNoteThatIsLeftAlone(t *testing.T) {
	for _, span := range []props{ // a mention and a span of kinds that are unknown here, and a text that people read otherwise
		{"type": "mention", "plain_text": "Sprint 12", "mention": props{"type": "hologram", "hologram": props{}}},
		{"type": "sketch", "plain_text": "a sketch", "sketch": props{}},
		{"type": "text", "plain_text": "a", "text": props{"content": "b"}},
		nil, // a page that is not read
	} {
		inWorld(t, func(w *world) {
			id := w.page(props{"Name": title("Fix the login"), "note": richText("a sketch")})
			if span == nil {
				w.write(w.tasks(notion.TaskSchema{}), id, claim.Write{Status: new(task.Blocked), Note: new(noteLine)})
			} else {
				w.answering(string(id), func(body map[string]any) {
					body["properties"].(map[string]any)["note"].(map[string]any)["rich_text"] = []any{span}
				})
				w.block(w.tasks(notion.TaskSchema{}), id, noteLine)
			}
			if p := w.look(id); p.Text("note") != "a sketch" || p.Select("status") != "BLOCKED" {
				w.Errorf("%v: %s with the note %q, want BLOCKED, and the note as it was", span, p.Select("status"), p.Text("note"))
			}
		})
	}
}

// What becomes of a task does not hang on its note: if Notion takes the write without it
// only, it is sent without it.
func TestNoteThatNotionRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.Method != http.MethodPatch {
				return next.RoundTrip(req)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil || strings.Contains(string(body), "no key") {
				refusal := answer(400, "application/json", `{"object":"error","status":400,"code":"validation_error","message":"a note of that kind is not allowed"}`)
				refusal.Request = req
				return refusal, err
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			return next.RoundTrip(req)
		})
		id := w.page(props{"Name": title("Fix the login")})
		if got := w.block(w.tasks(notion.TaskSchema{}), id, noteLine).Task; got.Status != task.Blocked || got.Note != "" {
			w.Errorf("%s with the note %q, want BLOCKED without one", got.Status, got.Note)
		}
	})
}

// A note that is taken off the board, or is of another type, breaks nothing.
func TestNoteThatIsGone(t *testing.T) {
	for _, change := range []any{nil, props{"number": props{}}} {
		inWorld(t, func(w *world) {
			tasks := w.tasks(notion.TaskSchema{})
			id := w.page(props{"Name": title("Fix the login"), "note": richText("Mind the dog.")})
			w.get(tasks, id)
			w.edit(props{"note": change})
			if got := w.block(tasks, id, noteLine).Task; got.Status != task.Blocked || got.Note != "" {
				w.Errorf("%s with the note %q, want BLOCKED without one", got.Status, got.Note)
			}
			for range 2 { // the first may find out
				tasks.Query(w.Context(), notion.Query{})
			}
			w.rows(tasks, notion.Query{})
			must(w, tasks.Broken())
			same(w, "", w.block(tasks, id, noteLine).Task.Note, "note")
			if change == nil {
				same(w, []string(nil), w.tasks(notion.TaskSchema{}).Warnings(), "warnings without a note")
			}
		})
	}
}
