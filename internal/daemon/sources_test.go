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
	"dibs/internal/task"
	"dibs/internal/testkit"
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
	mustDo(w, err)
	return id
}

// copied adds a data source that looks like the first one: its properties have the same ids.
func (w *world) copied(database, name string) string {
	w.Helper()
	id, err := w.notion.CopyDataSource(database, name)
	mustDo(w, err)
	return id
}

// mentions checks that an error has all these parts, in one line.
func (w *world) mentions(err error, all ...string) {
	w.Helper()
	w.refused("the error", err, "", all...)
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
		n := w.daemon(func(c *config.Config) { c.Databases.TasksSource = "Sprint, 12" })
		same(w, "questions for the data sources", 1, count(w.requests(), "GET databases/"+database))
		same(w, "tasks", []string{"first", "third", "waits"}, n.titles())
		w.refused("a row of the other data source", second(n.claim("Sandman", others[0])), denied(claim.CodeNotFound))

		cl := n.mustClaim("Sandman", first)
		w.refused("one that waits", second(n.claim("Oracle", waits)), denied(claim.CodeBlockedByDependency))
		before := w.page(first).Date("claimed_at")
		time.Sleep(20 * time.Minute)
		if _, err := n.renew(cl); err != nil || w.page(first).Date("claimed_at") == before {
			w.Errorf("renewed: err = %v, claimed at %s", err, w.page(first).Date("claimed_at"))
		}
		mustDo(w, n.complete(cl))
		same(w, "next, which has a priority", "third", n.mustClaim("Sandman", "").Task.Title)
		mustCall(n, api.OpBlock, api.On(third, "", api.BlockRequest{Reason: "no access"}))
		same(w, "next, which waited", waits, string(n.mustClaim("Oracle", "").Task.ID))
		mustDo(w, n.release(waits))
		stale := w.add("left behind", map[string]any{
			"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "claude-chat-7K9X"), "claimed_at": date(time.Now().Add(-2 * time.Hour)),
		})
		w.edit(third, name("edited"))
		time.Sleep(2 * time.Minute)
		for id, want := range map[string]string{first: "COMPLETED Sandman", waits: "OPEN ", third: "BLOCKED ", stale: "OPEN "} {
			same(w, w.page(id).Title(), want, shape(w.page(id)))
		}
		same(w, "tasks", []string{"edited", "first", "left behind", "waits"}, n.titles())
		for _, id := range others {
			if p := w.page(id); p.Text("claim_token")+p.Text("claimed_by") != "" || p.Edited != p.Created {
				w.Errorf("%s of the other data source was touched: %s", p.Title(), shape(p))
			}
		}
		same(w, "task log", []string{"completed: Sandman"}, w.work())
		same(w, "warnings", "", strings.Join(n.status().Warnings, "\n"))
	})
}

// A data source is found once: one that is added while claims are live, even one that looks like the
// tasks, changes nothing, nor does it for the next daemon. Another than the one in use cannot be named
// while tasks can be claimed, or in its place while it has what is held. Without Notion, a daemon
// starts with the one of the last run.
func TestASecondDataSourceIsAdded(t *testing.T) {
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		id, more := w.add("work", nil), w.add("more", nil)
		o := w.options(nil)
		n := w.start(o)
		cl := n.mustClaim("Sandman", id)
		ideas := w.copied(w.tasks, "Ideas")
		_, err := w.notion.CreatePage(ideas, name("idea"))
		mustDo(w, err)
		w.copied(w.notion.Databases().MeshLog, "Chatter")
		reload := func(source string) error {
			c := o.Config
			c.Databases.TasksSource, c.Notion.Burst = source, 5
			return n.daemon.Reload(c)
		}
		begin := func(source string) (*node, error) {
			o := o
			o.Config.Databases.TasksSource = source
			return w.begin(o)
		}
		const held = `databases.tasks: data source "Ideas" does not have "work", which Sandman holds: name the one that has it`
		w.mentions(reload("Idea"), `databases.tasks_source: database "Tasks" has no data source "Idea"`)
		w.mentions(reload("Ideas"), "databases.tasks_source cannot change while the tasks can be claimed")
		remove := w.notion.Inject(emulator.Fault{Kind: emulator.Error500, Path: "/v1/data_sources/"})
		w.mentions(reload("Tasks")) // it cannot be read
		remove()
		same(w, "the burst, as before", "10", n.samples()["dibs_notion_permits_max"])
		for _, named := range []string{"", "Tasks"} {
			n.stop()
			w.mentions(second(begin("Ideas")), held)
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
			same(w, "tasks", []string{"more", "work"}, n.titles())
		}
		n.stop()
		remove = w.notion.Inject(emulator.Fault{Kind: emulator.DropRequest})
		n, err = begin("Tasks")
		mustDo(w, err)
		same(w, "the task, without Notion", "work", n.task(id).Title)
		remove()
		time.Sleep(time.Minute)
		mustDo(w, n.complete(cl))
		n.mustClaim("Oracle", more)
		n.stop()
		time.Sleep(time.Hour) // nothing can be overridden any more
		n, err = begin("Ideas")
		mustDo(w, err)
		same(w, "tasks of the other one", []string{"idea"}, n.titles())
		n.stop()
		// Without earlier knowledge, the data source must be named.
		w.mentions(second(w.begin(w.options(nil))), `databases.tasks: database "Tasks" has several data sources, "Tasks" (`, `"Ideas" (`+ideas, "set databases.tasks_source")
		w.mentions(second(w.begin(w.options(func(c *config.Config) { c.Databases.TasksSource = "Tasks" }))), "databases.mesh_log: database", `"Chatter" (`, "set databases.mesh_log_source")
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
		mustDo(w, w.notion.TrashDataSource(ideas))
		time.Sleep(20 * time.Second)
		w.refused("a sync", second(n.trySync(true)), string(claim.CodeNotionRefused), "is in the trash")
		w.refused("a claim", second(n.claim("Sandman", w.add("work", nil))), string(claim.CodeNotionRefused), "is in the trash")
		if s := n.status(); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "is in the trash") {
			w.Errorf("warnings %q", s.Warnings)
		}
		o.Config.Databases.TasksSource = "More"
		mustDo(w, n.daemon.Reload(o.Config))
		n.sync()
		same(w, "warnings", "", strings.Join(n.status().Warnings, "\n"))
	})
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
		same(w, "ready", []string{"inside"}, n.ready("Sandman"))
		w.notion.ResetRequests()
		for id, lacks := range map[string]string{half: "its Urgent is no", bare: "its Area is empty, its Urgent is no", named: "its Area is empty"} {
			w.refused("a claim", second(n.claim("Sandman", id)), denied(claim.CodeNotOffered), lacks)
			if got := n.task(id); id != named && got.Code != string(claim.CodeNotOffered) {
				w.Errorf("%+v, want it not offered", got)
			}
		}
		_, err := call(n, api.OpOffer, api.OnTask(task.ID(half), "", api.OfferRequest{Agent: "Sandman", To: "Oracle"}))
		w.refused("an offer", err, denied(claim.CodeNotOffered))
		same(w, "writes outside of the scope", 0, count(w.requests(), "PATCH page"))
		same(w, "one that waits for a task of the others", string(claim.CodeBlockedByDependency), n.task(dependent).Code)

		// What leaves the scope while it is held stays with its agent.
		cl := n.mustClaim("Sandman", "")
		w.edit(inside, map[string]any{"Area": areas("Web")})
		time.Sleep(2 * interval)
		same(w, "who has it", cl.ID, n.task(inside).ClaimID)
		mustDo(w, n.complete(cl))
		w.refused("next", second(n.claim("Sandman", "")), denied(claim.CodeNothingReady), "3 are not for agents")
		// And what comes into it can be claimed.
		after := n.last()
		w.edit(bare, map[string]any{"Area": areas("API"), "Urgent": checked(true)})
		time.Sleep(2 * interval)
		n.wantEvents(after, `ready "bare"`)
		n.mustClaim("Oracle", bare)
		// What is added is in it, unless it is asked for otherwise.
		if added := n.mustAdd(api.AddRequest{Title: "new"}, ""); w.page(string(added.ID)).Text("Area") != "API" || !added.Ready {
			w.Errorf("%+v, want it ready", added)
		}
		if other := n.mustAdd(api.AddRequest{Title: "theirs", Fields: map[string]any{"Area": "Web"}}, ""); other.Code != string(claim.CodeNotOffered) {
			w.Errorf("%+v, want what was asked for", other)
		}
	})
}

// The board is asked for the tasks of the scope alone. What was edited lately is seen all the same.
// Without the property nobody knows what is for agents.
func TestScopeIsAFilter(t *testing.T) {
	inScope(t, func(w *world, use func(*config.Config)) {
		w.add("old", nil)
		stranger := w.add("asked for", nil)
		inside := w.add("inside", map[string]any{"Area": areas("API"), "Urgent": checked(true), "depends_on": relation(stranger)})
		time.Sleep(48 * time.Hour) // so that nobody edited them lately
		n := w.daemon(func(c *config.Config) { use(c); c.Sync.KeepFinished = time.Hour })
		same(w, "the daemon read", []string{"asked for", "inside"}, n.titles())
		same(w, "what a task depends on, which is looked up", string(claim.CodeNotOffered), n.task(stranger).Code)
		w.add("new", nil)
		time.Sleep(2 * interval)
		if got := n.titles(); !slices.Contains(got, "new") {
			w.Errorf("%q, want what was added since", got)
		}
		time.Sleep(3 * time.Hour)
		if got := n.titles(); slices.Contains(got, "new") {
			w.Errorf("%q, want the others' task forgotten once it is old", got)
		}
		mustDo(w, w.notion.EditSchema(w.tasks, map[string]any{"Area": nil}))
		w.mentions(second(n.claim("Sandman", inside)), "Area")
		w.mentions(second(w.begin(w.options(use))), `property "Area" of tasks.only is missing`)
	})
}
