package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
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
				if _, err := client.Do(w.Context(), n.Client, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{})); err != nil || w.page(first).Date("claimed_at") == before {
					w.Errorf("renewed: err = %v, claimed at %s", err, w.page(first).Date("claimed_at"))
				}
				if err := n.complete(cl); err != nil {
					w.Error(err)
				}
				if next := n.mustClaim("Sandman", ""); next.Task.Title != "third" { // it has a priority
					w.Errorf("next is %q", next.Task.Title)
				}
				if _, err := client.Do(w.Context(), n.Client, api.OpBlock, api.On(third, "", api.BlockRequest{Reason: "no access"})); err != nil {
					w.Error(err)
				}
				if next := n.mustClaim("Oracle", ""); string(next.Task.ID) != waits {
					w.Errorf("next is %+v, want the one that waited", next.Task)
				}
				if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(waits, "", api.StopRequest{})); err != nil {
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

// copied adds a data source that looks like the first one: its properties have the same ids.
func (w *world) copied(database, name string) string {
	w.Helper()
	id, err := w.notion.CopyDataSource(database, name)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// A data source is found once: one that is added while claims are live, even one that looks like the
// tasks, changes nothing, nor does it for the next daemon. Another than the one in use cannot be named
// while tasks can be claimed, or in its place while it has what is held.
func TestASecondDataSourceIsAdded(t *testing.T) {
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		id, more := w.add("work", nil), w.add("more", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		ideas := w.copied(w.tasks, "Ideas")
		if _, err := w.notion.CreatePage(ideas, name("idea")); err != nil {
			w.Fatal(err)
		}
		w.copied(w.notion.Databases().MeshLog, "Chatter")
		reload := func(source string) error {
			c := o.Config
			c.Databases.TasksSource, c.Notion.Burst = source, 5
			return n.daemon.Reload(c)
		}
		w.mentions(reload("Idea"), `databases.tasks_source: database "Tasks" has no data source "Idea"`)
		w.mentions(reload("Ideas"), "databases.tasks_source cannot change while the tasks can be claimed")
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.Error500, Path: "/v1/data_sources/"})
		if err := reload("Tasks"); err == nil {
			w.Error("a reload succeeded although the data source cannot be read")
		}
		remove()
		if got := n.samples()["dibs_notion_permits_max"]; got != "10" {
			w.Errorf("the burst is %s, want the one from before", got)
		}
		for _, named := range []string{"", "Tasks"} {
			n.stop()
			w.mentions(w.startError(func(c *config.Config) { c.StateDir, c.Databases.TasksSource = o.Config.StateDir, "Ideas" }),
				`databases.tasks: data source "Ideas" does not have "work", which Sandman holds: name the one that has it`)
			w.notion.ResetRequests()
			n = w.start(o)
			if named == "" && strings.Contains(strings.Join(w.requests(), "\n"), "GET databases/") {
				w.Errorf("a start looked for data sources that were known: %q", w.requests())
			}
			mustDo(w, reload(named))
			time.Sleep(time.Minute)
			if s := n.status(); len(s.Warnings) != 0 || s.Notion.LastError != "" || s.Outbox.Depth != 0 {
				w.Errorf("the status warns %q, error %q, %d owed", s.Warnings, s.Notion.LastError, s.Outbox.Depth)
			}
			if diff := cmp.Diff([]string{"more", "work"}, n.titles()); diff != "" {
				w.Errorf("tasks (-want +got):\n%s", diff)
			}
		}
		mustDo(w, n.complete(cl))
		mustDo(w, n.complete(n.mustClaim("Oracle", more)))
		n.stop()
		// Without earlier knowledge, the data source must be named.
		w.mentions(w.startError(func(c *config.Config) { c.Databases.TasksSource = "Tasks" }), "databases.mesh_log: database", `"Chatter" (`, "set databases.mesh_log_source")
	})
}

// A data source that is gone leaves others that could be meant: nothing is claimed until one is named.
func TestTheDataSourceIsGone(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		ideas := w.copied(w.tasks, "Ideas")
		w.copied(w.tasks, "More")
		o := w.options(func(c *config.Config) { c.Databases.TasksSource = ideas })
		n := w.start(o)
		w.notion.ResetRequests()
		mustDo(w, w.notion.TrashDataSource(ideas))
		time.Sleep(20 * time.Second)
		_, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true}))
		_, claimed := n.claim("Sandman", w.add("work", nil))
		for what, err := range map[string]error{"sync": err, "claim": claimed} {
			if code(err) != string(claim.CodeNotionRefused) || !strings.Contains(err.Error(), "is in the trash") {
				w.Errorf("%s = %v", what, err)
			}
		}
		if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "is in the trash") {
			w.Errorf("warnings %q", s.Warnings)
		}
		o.Config.Databases.TasksSource = "More"
		mustDo(w, n.daemon.Reload(o.Config))
		if _, err := client.Do(w.Context(), n.Client, api.OpSync, api.Keyed("", &api.SyncRequest{Full: true})); err != nil || len(n.status().Warnings) != 0 {
			w.Errorf("sync = %v, warnings %q", err, n.status().Warnings)
		}
	})
}

// An entry's relation to its task also works if the task is in one of several data sources, and the
// entry does not wait if the data source is not known yet.
func TestEntriesRelateToTasksOfOneDataSource(t *testing.T) {
	t.Parallel()
	for _, chosen := range []string{"", "Tasks"} {
		t.Run(chosen, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				if err := w.notion.EditSchema(w.notion.Databases().TaskLog, map[string]any{
					"task_id": map[string]any{"relation": map[string]any{"database_id": w.tasks, "single_property": map[string]any{}}},
				}); err != nil {
					w.Fatal(err)
				}
				id := w.add("work", nil)
				log := w.notion.Databases().TaskLog
				n := w.daemon(func(c *config.Config) {
					c.Databases.TasksSource = chosen
					if chosen != "" {
						c.Databases.TaskLogSource = w.notion.DataSource(log)
						w.copied(log, "Chatter")
					}
				})
				cl := n.mustClaim("Sandman", id)
				w.second(w.tasks, "Ideas")
				mustDo(w, n.complete(cl))
				time.Sleep(time.Minute)
				entries := w.notion.Pages(log)
				if len(entries) != 1 || !slices.Equal(entries[0].Relation("task_id"), []string{id}) {
					w.Errorf("chosen %q: %d entries, the first relates to %q", chosen, len(entries), entries[0].Relation("task_id"))
				}
			})
		})
	}
}

// inScope runs a test on a company's board, of which agents may have the tasks of one area that are
// ready.
func inScope(t *testing.T, test func(w *world, use func(*config.Config))) {
	t.Helper()
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.withFields()
		test(w, func(c *config.Config) { c.Tasks.Only = []string{"Area=api", "Urgent = yes"} })
	})
}

func checked(is bool) any { return map[string]any{"checkbox": is} }

func TestOnlyTasksOfTheScope(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		inside := w.add("inside", map[string]any{"Area": areas("API", "Web"), "Urgent": checked(true)})
		half := w.add("half", map[string]any{"Area": areas("API")})
		bare := w.add("bare", nil)
		named := w.add("named", map[string]any{"claimed_by": text("rich_text", "Sandman")})
		dependent := w.add("dependent", map[string]any{"Area": areas("API"), "Urgent": checked(true), "depends_on": relation(bare)})
		n := w.daemon(use)
		if got := n.ready("Sandman"); !slices.Equal(got, []string{"inside"}) {
			w.Errorf("ready: %q", got)
		}
		w.notion.ResetRequests()
		for id, lacks := range map[string]string{half: "its Urgent is no", bare: "its Area is empty, its Urgent is no", named: "its Area is empty"} {
			if _, err := n.claim("Sandman", id); code(err) != denied(claim.CodeNotOffered) || !strings.Contains(err.Error(), lacks) {
				w.Errorf("%v, want not_offered, and %q", err, lacks)
			}
			if got := n.task(id); id != named && got.Code != string(claim.CodeNotOffered) {
				w.Errorf("%+v, want it not offered", got)
			}
		}
		if _, err := client.Do(w.Context(), n.Client, api.OpOffer, api.OnTask(task.ID(half), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"})); code(err) != denied(claim.CodeNotOffered) {
			w.Errorf("offered: %v, want not_offered", err)
		}
		if sent := w.requests(); slices.Contains(sent, "PATCH page") {
			w.Errorf("requests %q: want nothing written outside of the scope", sent)
		}
		if got := n.task(dependent); got.Code != string(claim.CodeBlockedByDependency) {
			w.Errorf("%+v, want it to wait for a task of the others", got)
		}

		// What leaves the scope while it is held stays with its agent.
		cl := n.mustClaim("Sandman", "")
		w.edit(inside, map[string]any{"Area": areas("Web")})
		time.Sleep(2 * interval)
		if got := n.task(inside); got.ClaimID != cl.ID {
			w.Errorf("%+v, want it to be Sandman's still", got)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		if _, err := n.claim("Sandman", ""); code(err) != denied(claim.CodeNothingReady) || !strings.Contains(err.Error(), "3 are not for agents") {
			w.Errorf("%v, want nothing ready, and why", err)
		}
		// And what comes into it can be claimed.
		after := n.last()
		w.edit(bare, map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		time.Sleep(2 * interval)
		n.wantEvents(after, `ready "bare"`)
		n.mustClaim("Oracle", bare)
	})
}

// The board is asked for the tasks of the scope alone. What was edited lately is seen all the same.
func TestScopeIsAFilter(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		for i := range 5 {
			w.add(fmt.Sprint("old ", i), nil)
		}
		stranger := w.add("asked for", nil)
		w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true), "depends_on": relation(stranger)})
		time.Sleep(48 * time.Hour) // so that nobody edited them lately
		n := w.daemon(func(c *config.Config) { use(c); c.Sync.KeepFinished = time.Hour })
		if got := n.titles(); !slices.Equal(got, []string{"asked for", "inside"}) {
			w.Errorf("the daemon read %q", got)
		}
		if got := n.task(stranger); got.Code != string(claim.CodeNotOffered) {
			w.Errorf("%+v, want what a task depends on to be looked up", got)
		}
		w.add("new", nil)
		time.Sleep(2 * interval)
		if got := n.titles(); !slices.Contains(got, "new") {
			w.Errorf("%q, want what was added since", got)
		}
		time.Sleep(3 * time.Hour)
		if got := n.titles(); slices.Contains(got, "new") {
			w.Errorf("%q, want the others' task forgotten once it is old", got)
		}
	})
}

func TestAddedInScope(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		n := w.daemon(use)
		added := n.mustAdd(api.AddRequest{Title: "new"}, "")
		if got := w.page(string(added.ID)); got.Text("Area") != "API" {
			w.Errorf("the page shows Area %q", got.Text("Area"))
		}
		if !added.Ready {
			w.Errorf("%+v, want it ready", added)
		}
		other := n.mustAdd(api.AddRequest{Title: "theirs", Fields: map[string]any{"Area": "Web"}}, "")
		if got := w.page(string(other.ID)).Text("Area"); got != "Web" || other.Code != string(claim.CodeNotOffered) {
			w.Errorf("Area %q, %+v, want what was asked for", got, other)
		}
	})
}

// Without the property nobody knows what is for agents.
func TestScopeWithoutItsProperty(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		inside := w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		n := w.daemon(use)
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Area": nil}))
		if _, err := n.claim("Sandman", inside); err == nil {
			w.Error("a task was claimed without the property that says what is for agents")
		}
		if _, err := w.begin(w.options(use)); err == nil || !strings.Contains(err.Error(), `property "Area" of tasks.only is missing`) {
			w.Errorf("the start without the property: %v", err)
		}
	})
}
