package notion_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/task"
)

// complete is a schema that lacks nothing.
func complete() props {
	return props{
		"Name": of("title"), "status": of("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
		"claimed_by": of("rich_text"), "claimed_at": of("date"), "claim_token": of("rich_text"),
		"claim_timeout_minutes": of("number"), "priority": of("select", "critical", "high", "medium", "low"),
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change props // nil removes
		schema notion.TaskSchema
		says   []string
	}{
		{
			name: "missing", change: props{"claimed_by": nil, "claimed_at": nil},
			says: []string{`"Chores"`, `"claimed_by" is missing: add it with type rich_text, select or people`, "tasks.properties.claimed_by", `"claimed_at" is missing: add it with type date`},
		},
		{
			name: "no claim token", change: props{"claim_token": nil},
			says: []string{`"claim_token" is missing: `, "run dibs init, which adds it, or name the right one in tasks.properties.claim_token"},
		},
		{
			name: "of other types", change: props{"status": of("place"), "claimed_at": of("rich_text")},
			says: []string{`"status" is of type place, want status or select`, "tasks.properties.status", `"claimed_at" is of type rich_text, want date`},
		},
		{
			name: "by another name", change: props{"claimed_by": nil, "Claimed By": of("rich_text")},
			says: []string{`there is "Claimed By"`},
		},
		{
			name: "by a configured name", schema: notion.TaskSchema{Properties: notion.Properties{Status: "Stand"}},
			says: []string{`"Stand" is missing`},
		},
		{
			name: "options", change: props{"status": of("status", "OPEN", "Doing", "BLOCKED", "COMPLETED")},
			says: []string{`"status" has no option "IN_PROGRESS", "CANCELLED"`, "tasks.statuses"},
		},
		{
			name: "two statuses of one name", schema: notion.TaskSchema{Statuses: map[task.Status]string{task.Cancelled: "COMPLETED"}},
			says: []string{`COMPLETED and CANCELLED are both named "COMPLETED"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				columns := complete()
				maps.Copy(columns, tc.change)
				maps.DeleteFunc(columns, func(_ string, v any) bool { return v == nil })
				_, err := w.client.Tasks(w.Context(), w.database(columns), tc.schema)
				refused, isRefused := errors.AsType[*claim.StoreError](err)
				if !isRefused || refused.Kind != claim.Refused {
					w.Fatalf("err = %v, want a refusal", err)
				}
				for _, says := range tc.says {
					if !strings.Contains(err.Error(), says) {
						w.Errorf("%q does not say %q", err, says)
					}
				}
				if n := len(w.emulator.Requests()); n != 2 { // the data source is found first
					w.Errorf("it took %d requests", n)
				}
			})
		})
	}
}

func TestSchemasThatLackSomething(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change props
		warns  []string // in every warning, one of these
	}{
		{name: "nothing", warns: []string{`"depends_on" is missing: add it with type relation, or name the right one in tasks.properties.depends_on; until then no task is known to wait for another`}},
		{
			name:   "everything optional",
			change: props{"claim_timeout_minutes": nil, "priority": of("number")},
			warns: []string{
				"all claims last as long as claim.timeout says",
				`"priority" is of type number, want select, status or rich_text`, "no task is known to wait for another",
			},
		},
		{
			name: "options of a select", change: props{"status": of("select", "OPEN", "IN_PROGRESS", "BLOCKED")},
			warns: []string{`"status" has no option "COMPLETED", "CANCELLED": Notion adds an option when a task is first given it`, `"depends_on" is missing`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				columns := complete()
				maps.Copy(columns, tc.change)
				maps.DeleteFunc(columns, func(_ string, v any) bool { return v == nil })
				w.databases.Tasks = w.database(columns)
				warnings := w.tasks(notion.TaskSchema{}).Warnings()
				if len(warnings) != len(tc.warns) {
					w.Errorf("%d warnings, want %d", len(warnings), len(tc.warns))
				}
				all := strings.Join(warnings, "\n")
				for _, want := range tc.warns {
					if !strings.Contains(all, want) {
						w.Errorf("no warning says %q:\n%s", want, all)
					}
				}
				// And without what is missing, a claim can be written.
				id := w.page(props{})
				if _, err := w.tasks(notion.TaskSchema{}).Write(w.Context(), id, claimed("Sandman", dawn)); err != nil {
					w.Error(err)
				}
			})
		})
	}
}

func TestCompleteSchemaHasNoWarnings(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		if warnings := tasks.Warnings(); len(warnings) > 0 {
			w.Errorf("warnings: %q", warnings)
		}
	})
}

func TestDependenciesOnAnotherDatabase(t *testing.T) {
	inWorld(t, func(w *world) {
		columns := complete()
		columns["depends_on"] = props{"relation": props{"database_id": w.databases.MeshLog, "single_property": props{}}}
		w.databases.Tasks = w.database(columns)
		if got := strings.Join(w.tasks(notion.TaskSchema{}).Warnings(), "\n"); !strings.Contains(got, "depends_on relates to another database") {
			w.Errorf("warnings: %q", got)
		}
	})
}

func TestDatabasesThatCannotBeOpened(t *testing.T) {
	for _, tc := range []struct {
		name string
		id   func(w *world) string
		kind claim.StoreErrorKind
		says string
	}{
		{"no id", func(*world) string { return "Tasks" }, claim.Refused, "is not the id of a database"},
		{"unknown", func(*world) string { return "11111111-2222-3333-8444-555555555555" }, claim.NotFound, "share the database with the connection"},
		{"not shared", func(w *world) string {
			w.emulator.Unshare(w.databases.Tasks)
			return w.databases.Tasks
		}, claim.NotFound, "share the database with the connection"},
		{"in the trash", func(w *world) string {
			w.answering(w.databases.Tasks, func(body map[string]any) { body["in_trash"] = true })
			return w.databases.Tasks
		}, claim.Refused, "is in the trash"},
		{"several sources", func(w *world) string {
			if _, err := w.emulator.AddDataSource(w.databases.Tasks, "More", props{"Name": of("title")}); err != nil {
				w.Fatal(err)
			}
			return w.databases.Tasks
		}, claim.Refused, "several data sources"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := tc.id(w)
				_, err := w.client.Tasks(w.Context(), id, notion.TaskSchema{})
				_, logErr := w.client.Log(w.Context(), id)
				for _, err := range []error{err, logErr} {
					failed, isFailed := errors.AsType[*claim.StoreError](err)
					if !isFailed || failed.Kind != tc.kind || !strings.Contains(err.Error(), tc.says) {
						w.Errorf("err = %v, want kind %d and %q", err, tc.kind, tc.says)
					}
				}
			})
		})
	}
}

// An id can be given in any of its forms.
func TestDatabaseByURL(t *testing.T) {
	inWorld(t, func(w *world) {
		w.databases.Tasks = "https://www.notion.so/team/Tasks-" + strings.ReplaceAll(w.databases.Tasks, "-", "") + "?v=1"
		tasks := w.tasks(notion.TaskSchema{})
		if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 0 {
			w.Errorf("query: %v, %v", rows, err)
		}
	})
}
