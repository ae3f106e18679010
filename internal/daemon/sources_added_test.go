package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/daemon"

	"github.com/google/go-cmp/cmp"
)

// copied adds a data source to a database that cannot be told from the first one: its
// properties have the same ids.
func (w *world) copied(database, name string) string {
	w.Helper()
	id, err := w.notion.CopyDataSource(database, name)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// TestASecondDataSourceIsAdded adds a copy of the tasks while claims are held: nothing new
// can be claimed, and nothing that is held is lost, until it is said which one is meant.
func TestASecondDataSourceIsAdded(t *testing.T) {
	t.Parallel()
	again := map[string]func(w *world, n *node, o daemon.Options, ideas string) *node{
		"and named in a reload": func(w *world, n *node, o daemon.Options, ideas string) *node {
			o.Config.Databases.TasksSource = "Tasks"
			if err := n.daemon.Reload(o.Config); err != nil {
				w.Fatal(err)
			}
			return n
		},
		"and named in a restart": func(w *world, n *node, o daemon.Options, ideas string) *node {
			n.stop()
			w.mentions(w.startError(func(c *config.Config) { c.StateDir = o.Config.StateDir }), "set databases.tasks_source")
			w.mentions(w.startError(func(c *config.Config) { c.StateDir, c.Databases.TasksSource = o.Config.StateDir, "Ideas" }),
				`databases.tasks: data source "Ideas" does not have "`, "which Sandman holds: name the one that has it")
			o.Config.Databases.TasksSource = "Tasks"
			return w.start(o)
		},
		"and taken away": func(w *world, n *node, o daemon.Options, ideas string) *node {
			if err := w.notion.TrashDataSource(ideas); err != nil {
				w.Fatal(err)
			}
			return n
		},
	}
	for what, mend := range again {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 180, func(w *world) {
				var ids []string
				titles := []string{"blocked", "completed", "goes on", "kept alive", "open", "released"}
				for _, title := range titles {
					ids = append(ids, w.add(title, nil))
				}
				o := w.options(nil)
				n := w.start(o)
				defer func() { n.stop() }()
				held := make(map[string]api.Claim)
				for i, title := range titles {
					if title != "open" {
						held[title] = n.mustClaim("Sandman", ids[i])
					}
				}
				time.Sleep(time.Minute)

				ideas := w.copied(w.tasks, "Ideas")
				for _, title := range titles {
					if _, err := w.notion.CreatePage(ideas, name(title)); err != nil {
						w.Fatal(err)
					}
				}
				added := time.Now()
				time.Sleep(20 * time.Second)
				says := []string{`"Tasks" has several data sources, "Tasks" (`, `"Ideas" (` + ideas, "set databases.tasks_source"}
				w.mentions(refusal(n.claim("Oracle", ids[4])), says...)
				w.mentions(refusal(n.claim("Oracle", "")), says...)
				if _, err := n.claim("Oracle", ids[4]); code(err) != denied(claim.CodeNotionRefused) {
					w.Errorf("err = %v, want notion_refused", err)
				}
				warned := strings.Join(n.status().Warnings, "\n")
				for _, part := range append(says, "no task can be claimed") {
					if !strings.Contains(warned, part) {
						w.Errorf("the status warns %q, want %q", warned, part)
					}
				}
				if diff := cmp.Diff(titles, n.titles()); diff != "" {
					w.Errorf("tasks (-want +got):\n%s", diff)
				}

				// What is held can be worked with, and is looked after.
				if _, err := n.Renew(w.Context(), string(held["kept alive"].ID), api.RenewRequest{}, ""); err != nil {
					w.Error(err)
				}
				time.Sleep(time.Until(added.Add(16 * time.Minute)))
				if got := w.page(ids[3]).Date("claimed_at"); !strings.Contains(got, "T00:1") {
					w.Errorf("the claim that was kept alive is of %s, want it renewed after half its lease", got)
				}
				for _, title := range []string{"goes on"} {
					if cl, err := n.Renew(w.Context(), string(held[title].ID), api.RenewRequest{}, ""); err != nil || !cl.ExpiresAt.After(held[title].ExpiresAt.Time) {
						w.Errorf("renewed: %+v, err = %v", cl, err)
					}
				}
				if err := n.complete(held["completed"]); err != nil {
					w.Error(err)
				}
				if _, err := n.Release(w.Context(), string(held["released"].ID), api.StopRequest{}, ""); err != nil {
					w.Error(err)
				}
				if _, err := n.Block(w.Context(), string(held["blocked"].ID), api.BlockRequest{Reason: "no access"}, ""); err != nil {
					w.Error(err)
				}
				for i, want := range []string{"BLOCKED ", "COMPLETED Sandman", "IN_PROGRESS Sandman", "IN_PROGRESS Sandman", "OPEN ", "OPEN "} {
					if got := shape(w.page(ids[i])); got != want {
						w.Errorf("%s shows %q, want %q", titles[i], got, want)
					}
				}

				n = mend(w, n, o, ideas)
				time.Sleep(31 * time.Second)
				if s := n.status(); len(s.Warnings) != 0 || s.Notion.LastError != "" || s.ClaimsHeld != 2 || s.Mirror.Stale {
					w.Errorf("status: warnings %q, error %q, %d claims, stale %v", s.Warnings, s.Notion.LastError, s.ClaimsHeld, s.Mirror.Stale)
				}
				w.edit(ids[4], name("edited"))
				time.Sleep(16 * time.Second)
				if got := n.task(ids[4]).Title; got != "edited" {
					w.Errorf("the edited task is still %q", got)
				}
				if diff := cmp.Diff([]string{"blocked", "completed", "edited", "goes on", "kept alive", "released"}, n.titles()); diff != "" {
					w.Errorf("tasks (-want +got):\n%s", diff)
				}
				for _, title := range []string{"goes on", "kept alive"} {
					if err := n.complete(held[title]); err != nil {
						w.Errorf("%s: %v", title, err)
					}
				}
				if err := n.complete(n.mustClaim("Oracle", ids[4])); err != nil {
					w.Error(err)
				}
				time.Sleep(time.Minute)
				if mesh := w.mesh(); slices.ContainsFunc(mesh, func(row string) bool { return strings.HasPrefix(row, "lost") || strings.HasPrefix(row, "conflict") }) {
					w.Errorf("mesh log: %q", mesh)
				}
				if diff := cmp.Diff([]string{"completed: Oracle", "completed: Sandman", "completed: Sandman", "completed: Sandman"}, w.work()); diff != "" {
					w.Errorf("task log (-want +got):\n%s", diff)
				}
				for _, p := range w.notion.Pages(w.tasks)[len(titles):] {
					if p.Edited != p.Created {
						w.Errorf("%q of the other data source was touched", p.Title())
					}
				}
			})
		})
	}
}

// refusal is the error of a claim.
func refusal(_ api.Claim, err error) error { return err }

// Who has named the only data source does not notice that another one is added, nor
// that one of the name comes to it.
func TestASecondDataSourceBesideTheNamedOne(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = "Tasks" })
		defer n.stop()
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

// A reload that names a data source that cannot have the tasks changes nothing.
func TestReloadOfADataSourceThatIsNone(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.add("work", nil)
		o := w.options(nil)
		n := w.start(o)
		defer n.stop()
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
		w.mentions(refusal(n.claim("Sandman", id)), "several data sources", "set databases.tasks_source")
		for _, id := range []string{empty, twin} {
			if err := w.notion.TrashDataSource(id); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		cl := n.mustClaim("Sandman", id)

		// Of several, the one with the tasks and no other; and once only.
		ideas := w.copied(w.tasks, "Ideas")
		time.Sleep(20 * time.Second)
		w.mentions(reload("Idea"), "has no data source")
		w.mentions(reload(ideas), `data source "Ideas" does not have "work", which Sandman holds: name the one that has it`)
		w.mentions(refusal(n.claim("Oracle", w.add("more", nil))), "set databases.tasks_source")
		if err := reload("Tasks"); err != nil {
			w.Fatal(err)
		}
		w.mentions(reload(ideas), "databases.tasks_source cannot change while the tasks can be claimed")
		if err := n.complete(cl); err != nil {
			w.Error(err)
		}
	})
}

// A log that gets a second data source like the first keeps its entries waiting, says so, and
// hinders nobody.
func TestALogWithSeveralDataSources(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		o := w.options(nil)
		n := w.start(o)
		defer n.stop()
		log := w.notion.Databases().MeshLog
		other := w.copied(log, "Chatter")
		for range 3 {
			if err := n.complete(n.mustClaim("Sandman", w.add("work", nil))); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		said := n.status().Outbox
		for _, part := range []string{"mesh log: ", `several data sources, "Mesh Communication Log" (`, `"Chatter" (` + other, "set databases.mesh_log_source"} {
			if !strings.Contains(said.LastError, part) {
				w.Errorf("the status says %q, want %q", said.LastError, part)
			}
		}
		if said.Depth != 3 || len(w.work()) != 3 || len(w.mesh()) != 0 {
			w.Errorf("%d owed, task log %q, mesh log %q", said.Depth, w.work(), w.mesh())
		}
		w.mentions(w.startError(nil), "databases.mesh_log: database", "set databases.mesh_log_source")

		o.Config.Databases.MeshLogSource = "Mesh Communication Log"
		if err := n.daemon.Reload(o.Config); err != nil {
			w.Fatal(err)
		}
		time.Sleep(11 * time.Minute) // as long as a log that failed is left alone
		if diff := cmp.Diff([]string{"granted: Sandman", "granted: Sandman", "granted: Sandman"}, w.mesh()); diff != "" {
			w.Errorf("mesh log (-want +got):\n%s", diff)
		}
		if s := n.status(); s.Outbox.Depth != 0 {
			w.Errorf("%d entries are owed", s.Outbox.Depth)
		}
	})
}

// An entry that relates to its task does so too if that is in one of several data
// sources; and waits for nothing if it is not known yet in which.
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
				defer n.stop()
				cl := n.mustClaim("Sandman", id)
				w.second(w.tasks, "Ideas")
				if err := n.complete(cl); err != nil {
					w.Fatal(err)
				}
				time.Sleep(time.Minute)
				entries := w.notion.Pages(w.notion.Databases().TaskLog)
				if len(entries) != 1 || !slices.Equal(entries[0].Relation("task_id"), []string{id}) {
					w.Errorf("chosen %q: %d entries, the first relates to %q", chosen, len(entries), entries[0].Relation("task_id"))
				}
			})
		})
	}
}
