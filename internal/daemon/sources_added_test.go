package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/daemon"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// copied adds a data source that looks like the first one: its properties have the same ids.
func (w *world) copied(database, name string) string {
	w.Helper()
	id, err := w.notion.CopyDataSource(database, name)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// TestASecondDataSourceIsAdded adds a data source that looks like the tasks, while claims are live:
// the daemon continues with the known one, says so, and does so after a restart, too.
func TestASecondDataSourceIsAdded(t *testing.T) {
	t.Parallel()
	again := map[string]func(w *world, n *node, o daemon.Options) (_ *node, warns bool){
		"and named in a reload": func(w *world, n *node, o daemon.Options) (*node, bool) {
			o.Config.Databases.TasksSource = "Tasks"
			mustDo(w, n.daemon.Reload(o.Config))
			return n, false
		},
		"and the daemon restarted": func(w *world, n *node, o daemon.Options) (*node, bool) {
			n.stop()
			return w.start(o), true
		},
		"and named in a restart": func(w *world, n *node, o daemon.Options) (*node, bool) {
			n.stop()
			w.mentions(w.startError(func(c *config.Config) { c.StateDir, c.Databases.TasksSource = o.Config.StateDir, "Ideas" }),
				`databases.tasks: data source "Ideas" does not have "`, "which Sandman holds: name the one that has it")
			o.Config.Databases.TasksSource = "Tasks"
			return w.start(o), false
		},
	}
	for what, next := range again {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 180, func(w *world) {
				var ids []string
				titles := []string{"completed", "goes on", "open", "ready"}
				for _, title := range titles {
					ids = append(ids, w.add(title, nil))
				}
				o := w.options(nil)
				n := w.start(o)
				completed, goesOn := n.mustClaim("Sandman", ids[0]), n.mustClaim("Sandman", ids[1])
				time.Sleep(time.Minute)
				ideas := w.copied(w.tasks, "Ideas")
				var theirs []string
				for _, title := range titles {
					id, err := w.notion.CreatePage(ideas, name(title))
					if err != nil {
						w.Fatal(err)
					}
					theirs = append(theirs, id)
				}
				time.Sleep(20 * time.Second)
				if err := n.complete(completed); err != nil {
					w.Error(err)
				}
				if err := n.complete(n.mustClaim("Oracle", ids[2])); err != nil {
					w.Error(err)
				}
				added := n.mustAdd(api.AddRequest{Title: "zoom"}, "")
				time.Sleep(20 * time.Second)
				warned := func(want bool) {
					w.Helper()
					s := n.status()
					says := strings.Join(s.Warnings, "\n")
					if got := len(s.Warnings) == 1 && strings.Contains(says, "goes on being used: set databases.tasks_source"); got != want || !want && says != "" || s.Notion.LastError != "" {
						w.Errorf("the status warns %q, error %q", s.Warnings, s.Notion.LastError)
					}
				}
				warned(true)
				n, warns := next(w, n, o)
				time.Sleep(31 * time.Second)
				warned(warns)
				if diff := cmp.Diff(append(slices.Clone(titles), "zoom"), n.titles()); diff != "" {
					w.Errorf("tasks (-want +got):\n%s", diff)
				}
				if err := n.complete(goesOn); err != nil {
					w.Error(err)
				}
				for _, id := range []string{ids[3], string(added.ID)} {
					if err := n.complete(n.mustClaim("Oracle", id)); err != nil {
						w.Error(err)
					}
				}
				time.Sleep(time.Minute)
				if got := len(w.work()); got != 5 {
					w.Errorf("%d entries in the task log, want 5", got)
				}
				for _, id := range theirs {
					if p := w.page(id); p.Edited != p.Created {
						w.Errorf("%q of the other data source was touched", p.Title())
					}
				}
				n.stop()
			})
		})
	}
}

// If the only data source is named in the configuration, another one makes no difference, even with
// the same name.
func TestASecondDataSourceBesideTheNamedOne(t *testing.T) {
	testkit.RacedElsewhere(t)
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = "Tasks" })
		cl := n.mustClaim("Sandman", id)
		w.second(w.tasks, "Ideas")
		w.second(w.tasks, "Tasks")
		time.Sleep(20 * time.Minute)
		if _, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, ""); err != nil {
			w.Error(err)
		}
		if s := n.status(); len(s.Warnings) != 0 || s.Notion.LastError != "" {
			w.Errorf("warnings %q, error %q", s.Warnings, s.Notion.LastError)
		}
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
		for _, r := range w.notion.Requests() {
			if r.Status >= 400 {
				w.Errorf("%s %s: %d", r.Method, r.Path, r.Status)
			}
		}
	})
}

// A reload with an unsuitable data source changes nothing.
func TestReloadOfADataSourceThatIsNone(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		bare, err := w.notion.CreateDatabase("Bare", map[string]any{"Name": typed("title")})
		if err != nil {
			w.Fatal(err)
		}
		reload := func(source string) error {
			c := o.Config
			c.Databases.TasksSource, c.Notion.Burst = source, 5
			return n.daemon.Reload(c)
		}
		for _, source := range []string{"Ideas", bare} {
			w.mentions(reload(source), `databases.tasks_source: database "Tasks" has no data source`)
		}
		if got := n.samples()["dibs_notion_permits_max"]; got != "10" {
			w.Errorf("the burst is %s, want the one from before", got)
		}
		empty, err := w.notion.AddDataSource(w.tasks, "Empty", map[string]any{"Name": typed("title")})
		if err != nil {
			w.Fatal(err)
		}
		twin := w.copied(w.tasks, "Twin")
		time.Sleep(20 * time.Second)
		w.mentions(reload("Empty"), `databases.tasks_source: database "Empty" cannot be used: property "status" is missing`)
		for _, id := range []string{empty, twin} {
			mustDo(w, w.notion.TrashDataSource(id))
		}
		time.Sleep(20 * time.Second)
		cl := n.mustClaim("Sandman", id)

		// Of several, only the one with the tasks is accepted, and only once.
		ideas := w.copied(w.tasks, "Ideas")
		time.Sleep(20 * time.Second)
		w.mentions(reload("Idea"), "has no data source")
		w.mentions(reload(ideas), `data source "Ideas" does not have "work", which Sandman holds: name the one that has it`)
		n.mustClaim("Oracle", w.add("more", nil))
		mustDo(w, reload("Tasks"))
		w.mentions(reload(ideas), "databases.tasks_source cannot change while the tasks can be claimed")
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

// A log with a second, similar data source continues with the first, even with the next daemon;
// status says so.
func TestALogWithSeveralDataSources(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		n := w.start(o)
		other := w.copied(w.notion.Databases().MeshLog, "Chatter")
		want := []string{}
		for range 2 {
			mustDo(w, n.complete(n.mustClaim("Sandman", w.add("work", nil))))
			time.Sleep(5 * time.Minute)
			want = append(want, "granted: Sandman")
			if s := n.status(); s.Outbox.Depth != 0 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "the mesh log has several data sources now") || !strings.Contains(s.Warnings[0], "set databases.mesh_log_source") {
				w.Errorf("%d owed, warnings %q", s.Outbox.Depth, s.Warnings)
			}
			if diff := cmp.Diff(want, w.mesh()); diff != "" {
				w.Errorf("mesh log (-want +got):\n%s", diff)
			}
			n.stop()
			n = w.start(o)
		}
		// Without earlier knowledge, the data source must be named.
		w.mentions(w.startError(nil), "databases.mesh_log: database", `"Chatter" (`+other, "set databases.mesh_log_source")
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
				n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = chosen })
				cl := n.mustClaim("Sandman", id)
				w.second(w.tasks, "Ideas")
				mustDo(w, n.complete(cl))
				time.Sleep(time.Minute)
				entries := w.notion.Pages(w.notion.Databases().TaskLog)
				if len(entries) != 1 || !slices.Equal(entries[0].Relation("task_id"), []string{id}) {
					w.Errorf("chosen %q: %d entries, the first relates to %q", chosen, len(entries), entries[0].Relation("task_id"))
				}
			})
		})
	}
}
