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

	"github.com/google/go-cmp/cmp"
)

const noteLine = "Blocked: no key — Sandman, 2026-11-22 14:02 UTC"

// block reads the page and blocks the task, as a claim does.
func (w *world) block(tasks *notion.Tasks, id task.ID, line string) claim.Reading {
	w.Helper()
	w.get(tasks, id)
	r, err := tasks.Write(w.Context(), id, claim.Write{Status: new(task.Blocked), Note: new(line)})
	if err != nil {
		w.Fatal(err)
	}
	return r
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
		if err := w.emulator.EditPage(string(id), props{"note": props{"rich_text": []any{span("Mind the dog", nil)}}}); err != nil {
			w.Fatal(err)
		}
		visit, err := tasks.Permit(w.Context(), 2)
		if err != nil {
			w.Fatal(err)
		}
		if _, err := tasks.Get(visit, id); err != nil {
			w.Fatal(err)
		}
		<-mirrored
		if _, err := tasks.Write(visit, id, claim.Write{Status: new(task.Blocked), Note: new(noteLine)}); err != nil {
			w.Fatal(err)
		}
		if got, want := w.get(tasks, id).Note, "Mind the dog\n"+noteLine; got != want {
			w.Errorf("note %q, want %q", got, want)
		}
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
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{"Name": title("Fix the login"), "note": props{"rich_text": tc.before}})
				before := w.note(id)
				if got := w.block(tasks, id, noteLine); got.Task.Note != tc.want || got.Task.Status != task.Blocked {
					w.Errorf("%s with the note %q, want BLOCKED with %q", got.Task.Status, got.Task.Note, tc.want)
				}
				if diff := cmp.Diff(before[:tc.keeps], w.note(id)[:tc.keeps]); diff != "" {
					w.Errorf("what was there: -before +after\n%s", diff)
				}
				if got := w.get(tasks, id).Note; got != tc.want {
					w.Errorf("note %q, want %q", got, tc.want)
				}
				if n := len(w.patches()); n != 1 {
					w.Errorf("%d writes, want 1", n)
				}
			})
		})
	}
}

// note is the note as Notion has it.
func (w *world) note(id task.ID) []any {
	p, _ := w.emulator.Page(string(id))
	return p.Value("note").([]any)
}

// patches are the bodies of the writes that were sent.
func (w *world) patches() (bodies []string) {
	for _, r := range w.emulator.Requests() {
		if r.Method == http.MethodPatch {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

// A note that cannot be written back as it is, is left as it is.
func TestNoteThatIsLeftAlone(t *testing.T) {
	for name, span := range map[string]props{
		"a mention of a kind unknown here": {"type": "mention", "plain_text": "Sprint 12", "mention": props{"type": "hologram", "hologram": props{}}},
		"a span of a kind unknown here":    {"type": "sketch", "plain_text": "a sketch", "sketch": props{}},
		"a text that people read otherwise": {
			"type": "text", "plain_text": "a", "text": props{"content": "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.page(props{"Name": title("Fix the login"), "note": richText("a sketch")})
				w.answering(string(id), func(body map[string]any) {
					body["properties"].(map[string]any)["note"].(map[string]any)["rich_text"] = []any{span}
				})
				tasks := w.tasks(notion.TaskSchema{})
				w.block(tasks, id, noteLine)
				if p, _ := w.emulator.Page(string(id)); p.Text("note") != "a sketch" || p.Select("status") != "BLOCKED" {
					w.Errorf("%s with the note %q, want BLOCKED, and the note as it was", p.Select("status"), p.Text("note"))
				}
			})
		})
	}
}

// A page that was not read is not written a note: nobody knows what is there.
func TestNoteOfAPageThatWasNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Fix the login"), "note": richText("Mind the dog.")})
		if _, err := tasks.Write(w.Context(), id, claim.Write{Status: new(task.Blocked), Note: new(noteLine)}); err != nil {
			w.Fatal(err)
		}
		if p, _ := w.emulator.Page(string(id)); p.Text("note") != "Mind the dog." {
			w.Errorf("note %q", p.Text("note"))
		}
	})
}

// What becomes of a task does not hang on its note: if Notion takes the write without it
// only, it is sent without it.
func TestNoteThatNotionRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		next := w.transport
		w.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPatch {
				return next.RoundTrip(req)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(body), "no key") {
				return &http.Response{StatusCode: 400, Header: http.Header{"Date": {dawn.Format(http.TimeFormat)}}, Request: req,
					Body: io.NopCloser(strings.NewReader(`{"object":"error","status":400,"code":"validation_error","message":"a note of that kind is not allowed"}`))}, nil
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			return next.RoundTrip(req)
		})
		w.through(func(*http.Request) {})
		tasks := w.tasks(notion.TaskSchema{})
		id := w.page(props{"Name": title("Fix the login")})
		if got := w.block(tasks, id, noteLine).Task; got.Status != task.Blocked || got.Note != "" {
			w.Errorf("%s with the note %q, want BLOCKED without one", got.Status, got.Note)
		}
	})
}

// A note that is taken off the board, or is of another type, breaks nothing.
func TestNoteThatIsGone(t *testing.T) {
	for name, change := range map[string]any{"gone": nil, "of another type": props{"number": props{}}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tasks := w.tasks(notion.TaskSchema{})
				id := w.page(props{"Name": title("Fix the login"), "note": richText("Mind the dog.")})
				w.get(tasks, id)
				if err := w.emulator.EditSchema(w.databases.Tasks, map[string]any{"note": change}); err != nil {
					w.Fatal(err)
				}
				if got := w.block(tasks, id, noteLine).Task; got.Status != task.Blocked || got.Note != "" {
					w.Errorf("%s with the note %q, want BLOCKED without one", got.Status, got.Note)
				}
				for range 2 { // the first may find out
					_, _, err := tasks.Query(w.Context(), notion.Query{})
					_ = err
				}
				if _, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil {
					w.Errorf("tasks cannot be listed: %v", err)
				}
				if err := tasks.Broken(); err != nil {
					w.Errorf("broken: %v", err)
				}
				if again := w.block(tasks, id, noteLine).Task; again.Note != "" {
					w.Errorf("note %q", again.Note)
				}
			})
		})
	}
	inWorld(t, func(w *world) {
		if err := w.emulator.EditSchema(w.databases.Tasks, map[string]any{"note": nil}); err != nil {
			w.Fatal(err)
		}
		tasks := w.tasks(notion.TaskSchema{})
		if warnings := tasks.Warnings(); len(warnings) > 0 {
			w.Errorf("without a note: %q", warnings)
		}
	})
}
