package notion_test

import (
	"slices"
	"strings"
	"testing"

	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
)

// home is the page that the emulated workspace's databases lie on.
const home = task.ID("9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21")

func TestDatabasesAreMadeAndFound(t *testing.T) {
	inWorld(t, func(w *world) {
		db, err := w.client.CreateDatabase(w.Context(), home, "Errands",
			notion.NewColumn{Name: "What", Type: "title"}, notion.NewColumn{Name: "Kind", Type: "select", Options: []string{"big", "small"}})
		if err != nil || db.Title != "Errands" || !slices.Equal(db.Columns["Kind"].Options, []string{"big", "small"}) {
			w.Errorf("%+v, %v", db, err)
		}
		for i := range 130 { // more than one answer shows
			if _, err := w.emulator.CreateDatabase("Other", props{"Name": of("title")}); err != nil {
				w.Fatal(i, err)
			}
		}
		below, err := w.client.Below(w.Context(), home)
		if err != nil || len(below) != 134 || below[db.ID] != "Errands" || below[task.ID(w.databases.Tasks)] != "Tasks" {
			w.Errorf("%d databases, err = %v", len(below), err)
		}
	})
}

// TestWhatIsThereStays adds what is partly there, in another form.
func TestWhatIsThereStays(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.database(props{"Name": of("title"), "a": of("number"), "choice": of("select", "old", "older")}))
		db, err := w.client.AddColumns(w.Context(), id,
			notion.NewColumn{Name: "a", Type: "date"}, notion.NewColumn{Name: "b", Type: "date"},
			notion.NewColumn{Name: "c", Type: "relation"}, notion.NewColumn{Name: "d", Type: "unique_id", Prefix: "T"})
		must(w, err)
		types := make(map[string]string)
		for name, col := range db.Columns {
			types[name] = col.Type
		}
		same(w, map[string]string{"Name": "title", "a": "number", "b": "date", "c": "relation", "d": "unique_id", "choice": "select"}, types, "types")
		if db.Columns["c"].Source != db.Source {
			w.Errorf("the relation is to %s, want the database itself", db.Columns["c"].Source)
		}

		db = need(w.client.Extend(w.Context(), id, notion.NewColumn{Name: "choice", Options: []string{"older", "new"}}))(w)
		same(w, []string{"old", "older", "new"}, db.Columns["choice"].Options, "options")
		if _, err := w.client.Extend(w.Context(), id, notion.NewColumn{Name: "a", Options: []string{"new"}}); err == nil || !strings.Contains(err.Error(), "no options") {
			w.Errorf("options of a number: %v", err)
		}

		// Nothing is sent when nothing is missing.
		w.emulator.ResetRequests()
		need(w.client.AddColumns(w.Context(), id, notion.NewColumn{Name: "b", Type: "date"}))(w)
		need(w.client.Extend(w.Context(), id, notion.NewColumn{Name: "choice", Options: []string{"old"}}))(w)
		for _, r := range w.emulator.Requests() {
			if r.Method != "GET" {
				w.Errorf("sent %s %s", r.Method, r.Body)
			}
		}
	})
}

// An addition that Notion says it made and did not make is noticed.
func TestAdditionsThatAreNotMade(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.database(props{"Name": of("title"), "choice": of("select", "old")}))
		w.emulator.Inject(emulator.Fault{Method: "PATCH", Kind: emulator.NotApplied})
		if _, err := w.client.AddColumns(w.Context(), id, notion.NewColumn{Name: "b", Type: "date"}); err == nil || !strings.Contains(err.Error(), "by hand") {
			w.Errorf("a property: %v", err)
		}
		if _, err := w.client.Extend(w.Context(), id, notion.NewColumn{Name: "choice", Options: []string{"new"}}); err == nil || !strings.Contains(err.Error(), "by hand") {
			w.Errorf("an option: %v", err)
		}
	})
}
