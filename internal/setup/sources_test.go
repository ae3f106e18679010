package setup_test

import (
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/setup"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// source adds a minimal data source to a database.
func (w *world) source(database, name string) string {
	w.Helper()
	id, err := w.notion.AddDataSource(database, name, map[string]any{"Name": of("title"), "Status": of("status", "OPEN")})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// If a database has several data sources, the named one is completed and the others are left alone.
func TestDataSourcesThatAreNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Parent = ""
		given := &w.options.Given
		given.Tasks = w.database("Backlog", map[string]any{"Name": of("title")})
		given.TaskLog = w.database("Work", map[string]any{"Name": of("title")})
		given.MeshLog = w.database("Mesh", map[string]any{"Name": of("title")})
		w.source(given.Tasks, "Sprint")
		mesh := w.source(given.MeshLog, "Talk")

		refused := func(says ...string) {
			w.Helper()
			w.options.Client = w.client()
			_, err := setup.New(w.Context(), w.options)
			for _, part := range says {
				if err == nil || !strings.Contains(err.Error(), part) {
					w.Errorf("err = %v, want %q", err, part)
				}
			}
		}
		refused(`databases.tasks: database "Backlog" has several data sources, "Backlog" (`, "set databases.tasks_source")
		given.TasksSource = "Sprints"
		refused(`has no data source "Sprints"`)
		given.TasksSource = "Sprint"
		refused("databases.mesh_log: database", "set databases.mesh_log_source")
		w.options.Config.Databases.MeshLogSource = mesh // in the environment, say

		p := w.plan()
		if len(p.Problems) > 0 {
			w.Fatalf("problems: %q", p.Problems)
		}
		var what []string
		for _, s := range p.Steps {
			what = append(what, s.String())
		}
		if plan := strings.Join(what, "\n"); !strings.Contains(plan, `to "Sprint"`) || !strings.Contains(plan, `to "Talk"`) {
			w.Errorf("the plan does not say where:\n%s", plan)
		}
		w.apply(p)
		want := config.Databases{
			Tasks: given.Tasks, TasksSource: "Sprint", TaskLog: given.TaskLog, MeshLog: given.MeshLog, MeshLogSource: mesh,
			TaskLogSource: w.named(given.TaskLog, "Work"), // the only one: another may come
		}
		if diff := cmp.Diff(want, p.Config.Databases); diff != "" {
			w.Errorf("databases (-want +got):\n%s", diff)
		}
		w.again(p)
		if diff := cmp.Diff(want, w.options.Config.Databases); diff != "" {
			w.Errorf("databases as written (-want +got):\n%s", diff)
		}
		w.options.Given = config.Databases{}
		if again := w.plan(); len(again.Steps)+len(again.Problems) > 0 {
			w.Errorf("a second run would %v, problems %q", again.Steps, again.Problems)
		}

		// The others are unchanged.
		if err := w.notion.TrashDataSource(w.named(want.Tasks, "Sprint")); err != nil {
			w.Fatal(err)
		}
		if schema := w.schemaOf(want.Tasks); len(schema) != 1 {
			w.Errorf("the other data source has %v", schema)
		}
	})
}

// named returns the id of a data source.
func (w *world) named(database, name string) string {
	w.Helper()
	source, err := w.client().FindSource(w.Context(), task.ID(database), "k", name)
	if err != nil {
		w.Fatal(err)
	}
	return string(source.ID)
}

// A new database has one data source, which is written down, even if another one was named.
func TestADatabaseThatIsMadeHasOneDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Config.Databases.TasksSource = "Sprint"
		p := w.plan()
		w.apply(p)
		if got, want := p.Config.Databases.TasksSource, w.named(p.Config.Databases.Tasks, "Tasks"); got != want {
			w.Errorf("the data source is %q, want %q", got, want)
		}
		w.again(p)
		if again := w.plan(); len(again.Steps)+len(again.Problems) > 0 {
			w.Errorf("a second run would %v, problems %q", again.Steps, again.Problems)
		}
	})
}
