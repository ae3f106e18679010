package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// second adds a data source for tasks to a database, and returns its id.
func (w *world) second(database, name string) string {
	w.Helper()
	id, err := w.notion.AddDataSource(database, name, map[string]any{
		"Name": typed("title"), "status": typed("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
		"claimed_by": typed("rich_text"), "claimed_at": typed("date"), "claim_token": typed("rich_text"),
		"claim_timeout_minutes": typed("number"), "priority": typed("select", "critical", "high", "medium", "low"),
		"depends_on": map[string]any{"relation": map[string]any{"database_id": database, "single_property": map[string]any{}}},
	})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// mentions checks that an error has all these parts, in one line.
func (w *world) mentions(err error, all ...string) {
	w.Helper()
	for _, part := range all {
		if err == nil || !strings.Contains(err.Error(), part) {
			w.Errorf("err = %v, want it to say %q", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		w.Errorf("err = %q, want one line", err)
	}
}

// startError returns the error of a daemon's start.
func (w *world) startError(change func(*config.Config)) error {
	w.Helper()
	o := w.options(change)
	o.Listener = server.NewPipe()
	d, err := daemon.Start(w.Context(), o)
	if err == nil {
		w.Fatal("the daemon started", d.Close())
	}
	return err
}

// shape returns the visible state of a task's claim.
func shape(p emulator.Page) string {
	return p.Select("status") + " " + p.Text("claimed_by")
}

// TestTasksOfOneDataSource runs the life of claims on one of two data sources. The other has rows
// with the same titles, which must not be touched.
func TestTasksOfOneDataSource(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	for spelling, choose := range map[string]func(id string) string{
		"by name":            func(string) string { return "Sprint, 12" },
		"by id":              func(id string) string { return id },
		"by id, spelled out": func(id string) string { return " " + strings.ToUpper(strings.ReplaceAll(id, "-", "")) },
	} {
		t.Run(spelling, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				database := w.tasks
				var others []string
				for _, title := range []string{"first", "waits", "third"} {
					others = append(others, w.add(title, map[string]any{"priority": option("select", "critical")}))
				}
				w.tasks = w.second(database, "Sprint, 12")
				first := w.add("first", nil)
				waits := w.add("waits", map[string]any{"depends_on": relation(first)})
				third := w.add("third", map[string]any{"priority": option("select", "low")})

				w.notion.ResetRequests()
				n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = choose(w.tasks) })
				want := 1 // an id is the answer already
				if strings.HasPrefix(spelling, "by id") {
					want = 0
				}
				if got := count(w.requests(), "GET databases/"+database); got != want {
					w.Errorf("the database was asked for its data sources %d times, want %d", got, want)
				}
				if diff := cmp.Diff([]string{"first", "third", "waits"}, n.titles()); diff != "" {
					w.Fatalf("tasks (-want +got):\n%s", diff)
				}
				if s := n.status(); len(s.Warnings) != 0 {
					w.Errorf("warnings: %q", s.Warnings)
				}
				if _, err := n.claim("Sandman", others[0]); code(err) != denied(claim.CodeNotFound) {
					w.Errorf("a row of the other data source: err = %v, want not_found", err)
				}

				cl := n.mustClaim("Sandman", first)
				if got := shape(w.page(first)); got != "IN_PROGRESS Sandman" {
					w.Errorf("claimed: %s", got)
				}
				if _, err := n.claim("Oracle", first); code(err) != denied(claim.CodeHeld) {
					w.Errorf("err = %v, want held", err)
				}
				if _, err := n.claim("Oracle", waits); code(err) != denied(claim.CodeBlockedByDependency) {
					w.Errorf("err = %v, want blocked_by_dependency", err)
				}
				before := w.page(first).Date("claimed_at")
				time.Sleep(20 * time.Minute)
				if _, err := n.Renew(w.Context(), string(cl.ID), api.RenewRequest{}, ""); err != nil || w.page(first).Date("claimed_at") == before {
					w.Errorf("renewed: err = %v, claimed at %s", err, w.page(first).Date("claimed_at"))
				}
				if err := n.complete(cl); err != nil {
					w.Error(err)
				}
				if next := n.mustClaim("Sandman", ""); next.Task.Title != "third" { // it has a priority
					w.Errorf("next is %q", next.Task.Title)
				}
				if _, err := n.Block(w.Context(), third, api.BlockRequest{Reason: "no access"}, ""); err != nil {
					w.Error(err)
				}
				if next := n.mustClaim("Oracle", ""); string(next.Task.ID) != waits {
					w.Errorf("next is %+v, want the one that waited", next.Task)
				}
				if _, err := n.Release(w.Context(), waits, api.StopRequest{}, ""); err != nil {
					w.Error(err)
				}
				stale := w.add("left behind", map[string]any{
					"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"),
					"claimed_at": date(time.Now().Add(-2 * time.Hour)),
				})
				w.edit(third, name("edited"))
				time.Sleep(2 * time.Minute)
				for id, want := range map[string]string{first: "COMPLETED Sandman", waits: "OPEN ", third: "BLOCKED ", stale: "OPEN "} {
					if got := shape(w.page(id)); got != want {
						w.Errorf("%s shows %q, want %q", w.page(id).Title(), got, want)
					}
				}
				if diff := cmp.Diff([]string{"edited", "first", "left behind", "waits"}, n.titles()); diff != "" {
					w.Errorf("tasks (-want +got):\n%s", diff)
				}
				for _, id := range others {
					if p := w.page(id); p.Text("claim_token")+p.Text("claimed_by") != "" || p.Edited != p.Created {
						w.Errorf("%s of the other data source was touched: %s", p.Title(), shape(p))
					}
				}
				if diff := cmp.Diff([]string{"completed: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestChoiceOfADataSourceThatIsNone(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		first := []string{`databases.tasks: database "Tasks" has several data sources, "Tasks" (`, "set databases.tasks_source to the name or the id"}
		ideas := w.second(w.tasks, "Ideas")
		choose := func(source string) func(*config.Config) {
			return func(c *config.Config) { c.Databases.TasksSource = source }
		}
		w.mentions(w.startError(nil), append(first, `and "Ideas" (`+ideas+`): set`)...)
		w.mentions(w.startError(choose("Idea")), `database "Tasks" has no data source "Idea", only "Tasks" (`, `"Ideas" (`+ideas, "set databases.tasks_source to the name or the id of one of them")
		w.mentions(w.startError(choose(w.tasks)), "has no data source") // the database's id
		more := w.second(w.tasks, "Ideas")
		w.mentions(w.startError(choose("Ideas")), `several data sources of the name "Ideas", "Ideas" (`+ideas+`) and "Ideas" (`+more+`): set databases.tasks_source to the id`)
		n := w.daemon(choose(more))
		n.stop()

		// One without the tasks' properties is refused like such a database.
		bare, err := w.notion.AddDataSource(w.tasks, "Bare", map[string]any{"Name": typed("title")})
		if err != nil {
			w.Fatal(err)
		}
		w.mentions(w.startError(choose(bare)), `database "Bare" cannot be used: property "status" is missing`)
	})
}

// Without Notion, a daemon starts with the data source of the last run.
func TestANamedDataSourceOfTheLastRun(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		other := w.add("other", nil)
		w.tasks = w.second(w.tasks, "Sprint")
		id := w.add("work", nil)
		o := w.options(func(c *config.Config) { c.Databases.TasksSource = "Sprint" })
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		n.stop()
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		n = w.start(o)
		remove()
		time.Sleep(time.Minute)
		if _, err := n.claim("Oracle", other); code(err) != denied(claim.CodeNotFound) {
			w.Errorf("a row of the other data source: err = %v, want not_found", err)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		if diff := cmp.Diff([]string{"work"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
	})
}

// The same after a reload shortly before.
func TestANamedDataSourceOfAReload(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		o.Config.Databases.TasksSource = "Tasks"
		mustDo(w, n.daemon.Reload(o.Config))
		n.stop()
		defer w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})()
		n = w.start(o)
		if got := n.task(id).Title; got != "work" {
			w.Errorf("the task is %q", got)
		}
	})
}

// Another data source can be named for the next start once no claim in the first is live or could
// be overridden.
func TestAnotherDataSourceIsNamed(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		ideas := w.second(w.tasks, "Ideas")
		if _, err := w.notion.CreatePage(ideas, name("idea")); err != nil {
			w.Fatal(err)
		}
		o := w.options(func(c *config.Config) { c.Databases.TasksSource = "Tasks" })
		n := w.start(o)
		n.mustClaim("Sandman", id)
		n.stop()
		another := func(c *config.Config) { c.StateDir, c.Databases.TasksSource = o.Config.StateDir, "Ideas" }
		w.mentions(w.startError(another), `data source "Ideas" does not have "work", which Sandman holds`)
		time.Sleep(time.Hour)
		n = w.daemon(another)
		if diff := cmp.Diff([]string{"idea"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
	})
}

// A task that depends on a row of another data source keeps waiting: that row is not a task,
// whatever its status.
func TestDependenciesOnAnotherDataSource(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ideas := w.second(w.tasks, "Ideas")
		finished, err := w.notion.CreatePage(ideas, map[string]any{"Name": text("title", "idea"), "status": option("status", "COMPLETED")})
		if err != nil {
			w.Fatal(err)
		}
		if err := w.notion.EditSchema(w.tasks, map[string]any{
			"depends_on": map[string]any{"relation": map[string]any{"data_source_id": ideas, "single_property": map[string]any{}}},
		}); err != nil {
			w.Fatal(err)
		}
		id := w.add("waits", map[string]any{"depends_on": relation(finished)})
		n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = "Tasks" })
		if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeBlockedByDependency) {
			w.Errorf("err = %v, want blocked_by_dependency", err)
		}
		if warnings := n.status().Warnings; len(warnings) != 2 || !strings.Contains(warnings[1], "depends_on relates to another database") {
			w.Errorf("warnings: %q", warnings)
		}
		if diff := cmp.Diff([]string{"waits"}, n.titles()); diff != "" {
			w.Errorf("tasks (-want +got):\n%s", diff)
		}
	})
}
