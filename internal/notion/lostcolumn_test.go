package notion_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
)

// A column that is of another type now is as one that is gone: nothing is read and nothing is written
// until it is as it was.
func TestColumnsOfAnotherType(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   any // nil if removed
	}{
		{"status", of("rich_text")}, {"claimed_at", of("rich_text")}, {"claimed_by", of("number")},
		{"depends_on", nil}, {"depends_on", of("rich_text")}, {"priority", of("number")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				was := complete()[tt.name]
				if tt.name == "depends_on" {
					was = props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}
				}
				edit := func(to any) {
					w.Helper()
					if err := w.emulator.EditSchema(w.databases.Tasks, props{tt.name: to}); err != nil {
						w.Fatal(err)
					}
				}
				id := w.page(props{})
				tasks := w.tasks(notion.TaskSchema{})
				time.Sleep(time.Minute)
				edit(tt.is)
				_, get := tasks.Get(w.Context(), id)
				_, _, query := tasks.Query(w.Context(), notion.Query{})
				for what, err := range map[string]error{"get": get, "query": query, "permit": permitted(tasks), "broken": tasks.Broken()} {
					refused, isRefused := errors.AsType[*claim.StoreError](err)
					if !isRefused || refused.Kind != claim.Refused || !strings.Contains(err.Error(), strconv.Quote(tt.name)) {
						w.Errorf("%s: err = %v, want it refused for want of %s", what, err, tt.name)
					}
				}
				edit(was)
				if err := tasks.Check(w.Context()); err != nil {
					w.Fatal(err)
				}
				w.get(tasks, id)
			})
		})
	}
}

// An entry relates to its task although the tasks' database has got another data source meanwhile.
func TestEntryRelatesToATaskOfOneDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		about := w.page(props{})
		w.tasks(notion.TaskSchema{})
		db := w.database(props{"Name": of("title"), "task_id": props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}})
		if _, err := w.emulator.AddDataSource(w.databases.Tasks, "Ideas", props{"Name": of("title")}); err != nil {
			w.Fatal(err)
		}
		if err := w.log(db).Create(w.Context(), wording.NewEntry(event(about), claim.MeshLog)); err != nil {
			w.Fatal(err)
		}
		if got := w.onlyEntry(db).Relation("task_id"); len(got) != 1 || got[0] != string(about) {
			w.Errorf("it relates to %q, want %s", got, about)
		}
	})
}

// A query asks for the properties in use alone.
func TestQueryAsksForWhatIsInUse(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		w.emulator.ResetRequests()
		if _, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil {
			w.Fatal(err)
		}
		if got := w.emulator.Requests()[0].RawQuery; strings.Count(got, "filter_properties=") != 10 {
			w.Errorf("it asks for %s", got)
		}
	})
}
