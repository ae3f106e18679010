package notion_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// log opens a log database.
func (w *world) log(id string) *notion.Log {
	w.Helper()
	return need(w.client.Log(w.Context(), id))(w)
}

// onlyEntry returns the one page of a log.
func (w *world) onlyEntry(database string) emulator.Page {
	w.Helper()
	pages := w.emulator.Pages(database)
	if len(pages) != 1 {
		w.Fatalf("%d entries, want 1", len(pages))
	}
	return pages[0]
}

// finds checks whether a log has an entry.
func (w *world) finds(log *notion.Log, id string, want bool) {
	w.Helper()
	if found, err := log.Find(w.Context(), wording.Entry{ID: id}); err != nil || found != want {
		w.Errorf("Find of %s = %t, %v, want %t", id, found, err, want)
	}
}

const entryID = "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"

// event is something to log.
func event(about task.ID) claim.Fact {
	return claim.Fact{
		ID: entryID, At: dawn.Add(90 * time.Second), Kind: claim.KindDenied, Task: about, Title: "Fix the login",
		URL: "https://www.notion.so/Fix-1", Agent: "Sandman", Claim: "01JDH4YJ2R6S1F2Q8Y1V4Q0AAA",
		Code: claim.CodeHeld, Holder: "Oracle", Detail: "held", Summary: "nothing done",
	}
}

func TestEntryInAFullLog(t *testing.T) {
	inWorld(t, func(w *world) {
		about := w.page(props{})
		log := w.log(w.databases.MeshLog)
		must(w, log.Create(w.Context(), wording.NewEntry(event(about), claim.MeshLog)))
		entry := w.onlyEntry(w.databases.MeshLog)
		for name, want := range map[string]string{
			"entry_id": entryID, "agent": "Sandman", "task": "Fix the login", "task_id": string(about), "claim_id": "01JDH4YJ2R6S1F2Q8Y1V4Q0AAA",
			"holder": "Oracle", "code": "held", "detail": "held", "Name": "Sandman was refused “Fix the login”: held by Oracle", "event": "denied",
		} {
			same(w, want, entry.Text(name), "%s", name)
		}
		same(w, "2000-01-01T00:01:00.000+00:00", entry.Date("at"), "at")
		// What has no property goes into the text, in order, and nothing twice.
		same(w, "summary: nothing done\ntask_url: https://www.notion.so/Fix-1", entry.Body(), "the text")
		w.finds(log, entryID, true)
		w.finds(log, "01JDH4YJ2R6S1F2Q8Y1V4Q0ZZZ", false)

		w.emulator.SetBlockLimit(0)
		err := log.Create(w.Context(), wording.Entry{ID: entryID, Title: "T"})
		failed(w, err, claim.Refused, claim.LandedNo, "no blocks left")
	})
}

// A log needs nothing but its title.
func TestEntryInABareLog(t *testing.T) {
	inWorld(t, func(w *world) {
		database := w.database(props{"Event": of("title"), "Place": of("place")})
		log := w.log(database)
		e := wording.NewEntry(event(w.page(props{})), claim.MeshLog)
		e.Title = strings.Repeat("🦋", 1500)
		must(w, log.Create(w.Context(), e))
		entry := w.onlyEntry(database)
		got := entry.Title()
		if n := len(utf16.Encode([]rune(got))); !strings.HasPrefix(got, "🦋🦋") || !strings.HasSuffix(got, "🦋 ["+entryID+"]") || n > 2000 {
			w.Errorf("the title has %d UTF-16 code units: %q", n, got)
		}
		contains(w, "\n"+entry.Body()+"\n", "\nagent: Sandman\n", "\nevent: denied\n", "\nat: 2000-01-01T00:01:30.000Z\n")
		w.finds(log, entryID, true)
		w.finds(log, "01JDH4YJ2R6S1F2Q8Y1V4Q0ZZZ", false)
	})
}

func TestEntryInALogOfOtherNamesAndTypes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.tasks(notion.TaskSchema{})
		schema := props{
			"What": of("title"), "Entry ID": of("rich_text"), "Agent Name": of("select"), "Names": of("multi_select"),
			"Result": of("status", "Open", "Completed"), "Finished": of("date"), "Duration": of("number"), "URL": of("url"),
			"Task":  props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}},
			"Other": props{"relation": props{"database_id": w.databases.MeshLog, "single_property": props{}}},
			"done":  of("checkbox"), "count": of("rich_text"), "summary": of("people"),
		}
		database := w.database(schema)
		about := w.page(props{})
		must(w, w.log(database).Create(w.Context(), wording.Entry{ID: entryID, Title: "Done", Fields: []wording.Field{
			{Name: "entry_id", Value: entryID},
			{Name: "agent", Aliases: []string{"agent_name"}, Value: "Sandman, the\nfirst"},
			{Name: "worker", Aliases: []string{"agent_name"}, Value: "Oracle"},
			{Name: "names", Value: "Oracle; Maria,Oracle"},
			{Name: "outcome", Aliases: []string{"verdict", "result"}, Value: "completed"},
			{Name: "finished", Value: dawn.Add(time.Hour)},
			{Name: "duration_seconds", Aliases: []string{"duration"}, Value: 61.5},
			{Name: "task_id", Value: string(about)},
			{Name: "other", Value: string(about)},
			{Name: "url", Value: "https://www.notion.so/x"},
			{Name: "done", Value: true},
			{Name: "count", Value: 3.0},
			{Name: "summary", Value: "all of it"},
			{Name: "nothing", Value: ""}, {Name: "blank", Value: " "}, {Name: "never", Value: time.Time{}}, {Name: "nil", Value: nil},
		}}))
		entry := w.onlyEntry(database)
		names, _ := entry.Value("Names").([]any)
		same(w, []any{
			"Sandman; the first", 2, "Completed", "2000-01-01T01:00:00.000+00:00", 61.5, []string{string(about)}, "https://www.notion.so/x", true, "3",
		}, []any{
			entry.Select("Agent Name"), len(names), entry.Select("Result"), entry.Date("Finished"), entry.Number("Duration"), entry.Relation("Task"),
			entry.Value("URL"), entry.Value("done"), entry.Text("count"),
		}, "values")
		same(w, "worker: Oracle\nother: "+string(about)+"\nsummary: all of it", entry.Body(), "the text")
	})
}

// Values that a property cannot hold go into the text.
func TestValuesThatDoNotFit(t *testing.T) {
	inWorld(t, func(w *world) {
		schema := props{"Name": of("title")}
		var fields []wording.Field
		for _, tc := range []struct {
			column any
			value  any
		}{
			{of("select"), strings.Repeat("x", 101)}, {of("select"), 7.0}, {of("multi_select"), strings.Repeat("x", 101)}, {of("multi_select"), true},
			{of("status", "Open"), "Shut"}, {of("date"), "tomorrow"}, {of("number"), "three"}, {of("checkbox"), "yes"}, {of("url"), "nowhere"},
			{of("people"), "Maria"}, {of("unique_id"), "1"},
			{props{"relation": props{"database_id": w.databases.MeshLog, "single_property": props{}}}, "11111111-2222-3333-4444-555555555555"},
		} {
			name := "f" + string(rune('a'+len(fields)))
			schema[name] = tc.column
			fields = append(fields, wording.Field{Name: name, Value: tc.value})
		}
		database := w.database(schema)
		must(w, w.log(database).Create(w.Context(), wording.Entry{ID: entryID, Title: "T", Fields: fields}))
		lines := strings.Split(w.onlyEntry(database).Body(), "\n")
		if len(lines) != len(fields) {
			w.Errorf("%d lines, want %d: %q", len(lines), len(fields), lines)
		}
	})
}

// A text is split where Notion wants it split, and cut off where a request would
// grow too big.
func TestLongTexts(t *testing.T) {
	inWorld(t, func(w *world) {
		whole := strings.Repeat("0123456789🦋", 5000) // 60,000 UTF-16 code units
		for _, tc := range []struct {
			detail string
			least  int // characters of the detail that are kept
		}{
			{strings.Repeat("x", 300_000), 190_000}, // too many for the spans that a text may have
			{strings.Repeat("<", 300_000), 50_000},  // six bytes each, in JSON
		} {
			database := w.database(props{"Name": of("title"), "summary": of("rich_text")})
			fields := []wording.Field{{Name: "summary", Value: whole}, {Name: "detail", Value: tc.detail}}
			must(w, w.log(database).Create(w.Context(), wording.Entry{ID: entryID, Title: "T", Fields: fields}))
			entry := w.onlyEntry(database)
			if entry.Text("summary") != whole {
				w.Error("the summary is not whole")
			}
			if body := entry.Body(); !strings.HasPrefix(body, "detail: "+tc.detail[:tc.least]) {
				w.Errorf("of the detail %d bytes are kept, want %d or more", len(body), tc.least)
			}
		}
	})
}

// A log whose database somebody changes goes on with the next entry.
func TestLogAdaptsToItsDatabase(t *testing.T) {
	inWorld(t, func(w *world) {
		log := w.log(w.databases.MeshLog)
		must(w, w.emulator.EditSchema(w.databases.MeshLog, props{"agent": nil, "from": nil, "entry_id": nil}))
		entry := wording.NewEntry(event("11111111-2222-3333-4444-555555555555"), claim.MeshLog)
		failed(w, log.Create(w.Context(), entry), claim.Refused, claim.LandedNo)
		must(w, log.Create(w.Context(), entry))
		page := w.onlyEntry(w.databases.MeshLog)
		if !strings.HasSuffix(page.Title(), "["+entryID+"]") || !strings.Contains(page.Body(), "agent: Sandman") {
			w.Errorf("title %q, text %q", page.Title(), page.Body())
		}

		// While the database cannot be read, nothing is sent.
		must(w, w.emulator.EditSchema(w.databases.MeshLog, props{"holder": nil}))
		failed(w, log.Create(w.Context(), entry), claim.Refused, claim.LandedNo)
		must(w, w.emulator.Unshare(w.databases.MeshLog))
		failed(w, log.Create(w.Context(), entry), claim.NotFound, claim.LandedNo)
	})
}

// A log with both a text for the task's id and a relation to the tasks gets both.
func TestEntryRelatesToItsTask(t *testing.T) {
	inWorld(t, func(w *world) {
		about := w.page(props{})
		for _, schema := range []props{
			{"Name": props{"title": props{}}, "task_id": props{"rich_text": props{}}, "task_title": props{"rich_text": props{}}},
			{"Name": props{"title": props{}}, "task_title": props{"rich_text": props{}}},
		} {
			schema["task"] = props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}
			db := need(w.emulator.CreateDatabase("Log", schema))(w)
			w.tasks(notion.TaskSchema{})
			must(w, w.log(db).Create(w.Context(), wording.NewEntry(event(about), claim.MeshLog)))
			entry := w.onlyEntry(db)
			same(w, []string{string(about)}, entry.Relation("task"), "task relates to")
			if _, text := schema["task_id"]; text && entry.Text("task_id") != string(about) || entry.Text("task_title") != "Fix the login" {
				w.Errorf("task_id %q, task_title %q", entry.Text("task_id"), entry.Text("task_title"))
			}
			if strings.Contains(entry.Body(), string(about)) {
				w.Errorf("the text says it again: %q", entry.Body())
			}
		}
	})
}

// Who waits for a log to be read again, which somebody else has asked for, waits no longer than he
// wants to.
func TestLogIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		log := need(w.client.RecallLog(w.databases.MeshLog))(t)
		lift := w.emulator.Inject(emulator.Fault{Kind: emulator.Stop, Method: http.MethodGet})
		first := make(chan error, 1)
		go func() { first <- log.Create(w.Context(), wording.NewEntry(event(""), claim.MeshLog)) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := log.Find(ctx, wording.Entry{ID: entryID}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", time.Second, err)
		}
		lift()
		must(t, <-first)
	})
}
