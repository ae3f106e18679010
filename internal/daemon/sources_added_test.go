package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"

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
		_, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, "")
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
		if _, err := n.Sync(w.Context(), api.SyncRequest{Full: true}, ""); err != nil || len(n.status().Warnings) != 0 {
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
