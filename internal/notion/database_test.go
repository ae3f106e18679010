package notion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

const key = "databases.tasks_source"

// sprint adds a data source with all that tasks need to the tasks database, and
// names it.
func (w *world) sprint() string {
	w.Helper()
	columns := complete()
	columns["depends_on"] = props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}
	id := need(w.emulator.AddDataSource(w.databases.Tasks, "Sprint", columns))(w)
	w.client.Choose(task.ID(w.databases.Tasks), key, "Sprint")
	return id
}

// A data source that is named by its id is read without looking for it. One of another database is
// refused, with what there is.
func TestDataSourceNamedByItsID(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.databases.Tasks)
		sprint := w.sprint()
		mesh := need(w.client.FindSource(w.Context(), task.ID(w.databases.MeshLog), "", ""))(w)
		const none = `has no data source "`
		for wanted, want := range map[string]string{sprint: "", string(mesh.ID): none, w.databases.Tasks: none} {
			w.client.Choose(id, key, wanted)
			w.sent()
			db, err := w.client.Database(w.Context(), string(id))
			if want != "" {
				failed(w, err, claim.Refused, claim.LandedNo, want, `"Sprint" (`)
				continue
			}
			must(w, err)
			same(w, sprint, string(db.Source), "by its id")
			w.took(1, "to read it")
		}
	})
}

func TestTasksOfADataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.page(props{"Name": title("other")})
		sprint := w.sprint()
		id := w.pageIn(sprint, props{"Name": title("task"), "status": status("OPEN")})
		w.sent()
		tasks := w.tasks(notion.TaskSchema{})
		w.took(2, "to find the data source and to read it")
		same(w, []string(nil), tasks.Warnings(), "warnings")
		same(w, []string{"task"}, titles(w.rows(tasks, notion.Query{UnfinishedOnly: true})), "rows")
		w.write(tasks, id, claimed("Sandman", dawn))
		if got := w.get(tasks, id); got.ClaimedBy != "Sandman" || got.Status != task.InProgress {
			w.Errorf("the task shows %+v", got)
		}
		_, err := tasks.Get(w.Context(), other)
		failed(w, err, claim.NotFound, claim.LandedUnknown, "another data source")
		if in := need(w.client.SourceOf(w.Context(), w.pageIn(w.databases.MeshLog, props{})))(w); in == "" || string(in) == sprint {
			w.Errorf("an entry is in %q", in)
		}
		same(w, task.ID(sprint), need(w.client.SourceOf(w.Context(), id))(w), "the task is in")
		must(w, tasks.Check(w.Context()))

		// The scratch row of a probe is made there, too.
		need(tasks.Probe(w.Context(), "probe", 1, probeWindow))(w)
		same(w, []string{"task"}, titles(w.rows(tasks, notion.Query{})), "after a probe")
		for _, p := range w.emulator.Pages(w.databases.Tasks) {
			if p.Title() == "probe, write 1 of 1" && !p.Trashed {
				w.Error("the scratch row is left")
			}
		}
	})
}

func TestPropertiesAreAddedToTheDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		sprint := need(w.emulator.AddDataSource(w.databases.Tasks, "Sprint", props{"Name": of("title"), "status": of("status", "OPEN")}))(w)
		id := task.ID(w.databases.Tasks)
		w.client.Choose(id, key, sprint)
		w.emulator.ResetRequests()
		db := need(w.client.AddColumns(w.Context(), id, notion.NewColumn{Name: "claimed_by", Type: "rich_text"}, notion.NewColumn{Name: "depends_on", Type: "relation"}))(w)
		if string(db.ID) != w.databases.Tasks || string(db.Source) != sprint || db.Title != "Sprint" || string(db.Columns["depends_on"].Source) != sprint || db.Columns["claimed_by"].Type != "rich_text" {
			w.Errorf("the database is %+v", db)
		}
		for _, r := range w.emulator.Requests() {
			if r.Method == "PATCH" && (!strings.Contains(string(r.Body), `"data_source_id":"`+sprint+`"`) || strings.Contains(string(r.Body), "database_id")) {
				w.Errorf("the relation was asked for as %s", r.Body)
			}
		}
		db = need(w.client.Extend(w.Context(), id, notion.NewColumn{Name: "status", Options: []string{"OPEN", "BLOCKED"}}))(w)
		same(w, []string{"OPEN", "BLOCKED"}, db.Columns["status"].Options, "options")
	})
}

func TestLogOfADataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.databases.MeshLog)
		log := need(w.client.RecallLog(string(id)))(w)
		second := need(w.emulator.AddDataSource(string(id), "Log", props{"Title": of("title"), "entry_id": of("rich_text")}))(w)
		entry := wording.Entry{ID: entryID, Title: "entry"}
		err := log.Create(w.Context(), entry)
		if failed(w, err, claim.Refused, claim.LandedNo, "move all but one"); !errors.As(err, new(*notion.SourceError)) {
			w.Errorf("err = %v, want that there are several", err)
		}
		w.client.Choose(id, "k", "Log")
		must(w, log.Create(w.Context(), entry))
		w.finds(log, entryID, true)
		// Another choice is gone by at once.
		w.client.Choose(id, "k", "Mesh Communication Log")
		w.finds(log, entryID, false)
		if pages := w.emulator.Pages(string(id)); len(pages) != 1 || pages[0].Value("Title") == nil {
			w.Errorf("the entries are %+v, want one in %s", pages, second)
		}
	})
}

// What is said of a choice that cannot be made is one line, however many and
// whatever the data sources are.
func TestSourceError(t *testing.T) {
	source := func(n int, name string) notion.Source {
		return notion.Source{ID: task.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Name: name}
	}
	two := []notion.Source{source(1, "Tasks"), source(2, "Ideas\n\x1b[31m")}
	var many []notion.Source
	for n := range 30 {
		many = append(many, source(n, ""))
	}
	for _, tc := range []struct {
		err  notion.SourceError
		want string
	}{
		{notion.SourceError{Database: "Board", Sources: two, Key: key}, `database "Board" has several data sources, "Tasks" (00000000-0000-4000-8000-000000000001) and "Ideas �[31m" (00000000-0000-4000-8000-000000000002): set databases.tasks_source to the name or the id of the one that is meant`},
		{notion.SourceError{Database: "Board", Sources: two}, `and "Ideas �[31m" (00000000-0000-4000-8000-000000000002): move all but one to databases of their own`},
		{notion.SourceError{Database: "Board", Sources: two[:1], Key: key, Wanted: "tasks"}, `database "Board" has no data source "tasks", only "Tasks" (00000000-0000-4000-8000-000000000001): set databases.tasks_source to the name or the id of one of them`},
		{notion.SourceError{Database: "Board", Sources: []notion.Source{source(1, "A"), source(2, "A"), source(3, "B")}, Key: key, Wanted: "A"}, `has several data sources of the name "A", "A" (00000000-0000-4000-8000-000000000001) and "A" (00000000-0000-4000-8000-000000000002): set databases.tasks_source to the id of the one that is meant`},
		{notion.SourceError{Database: "Board", Sources: many, Key: key}, `"" (00000000-0000-4000-8000-000000000019) and 10 more: set`},
	} {
		if got := tc.err.Error(); !strings.Contains(got, tc.want) || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// In the place of a data source that is gone another one is looked for at the next start only, and
// there may be several.
func TestADataSourceThatIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		id := task.ID(w.databases.Tasks)
		known := w.client.Sources()
		ideas := need(w.emulator.AddDataSource(w.databases.Tasks, "Ideas", props{"Idea": of("title")}))(w)
		_, err := tasks.Get(w.Context(), w.pageIn(ideas, props{"Idea": title("Fly")}))
		failed(w, err, claim.NotFound, claim.LandedUnknown) // no task
		same(w, []string(nil), titles(w.rows(tasks, notion.Query{})), "rows")
		must(w, tasks.Broken())
		w.client.Choose(id, key, "Sprint")
		w.client.Choose(id, key, "")
		w.client.RecallSources(map[task.ID]notion.Choice{id: {Source: "11111111-2222-4333-8444-555555555555"}})
		_, _, err = tasks.Query(w.Context(), notion.Query{})
		failed(w, err, claim.NotFound, claim.LandedNo, "is not shared")
		_, err = w.client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{})
		failed(w, err, claim.Refused, claim.LandedNo, "set "+key)
		w.client.Choose(id, key, "Tasks")
		w.rows(tasks, notion.Query{})
		must(w, tasks.Broken())
		same(w, known[id].Source, w.client.Sources()[id].Source, "the tasks are in")
	})
}

// A data source is known without Notion, but only if the same one is named.
func TestRecallTasksOfADataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		sprint := w.sprint()
		schema := notion.TaskSchema{Known: w.tasks(notion.TaskSchema{}).Known()}
		known := w.client.Sources()
		fresh := func(wanted string) (*notion.Tasks, error) {
			w.Helper()
			client := w.another(notion.Options{})
			client.Choose(task.ID(w.databases.Tasks), key, wanted)
			client.RecallSources(known)
			return client.RecallTasks(w.databases.Tasks, schema)
		}
		for _, wanted := range []string{"", "Tasks", sprint} {
			if _, err := fresh(wanted); err == nil {
				w.Errorf("recalled %q as what was named %q", "Sprint", wanted)
			}
		}
		w.sent()
		tasks := need(fresh("Sprint"))(w)
		w.took(0, "to recall it")
		_, err := tasks.Get(w.Context(), w.page(props{"Name": title("other")}))
		failed(w, err, claim.NotFound, claim.LandedUnknown)
		must(w, tasks.Broken())
	})
}

// What an earlier version of dibs kept of data sources counts.
func TestChoicesOfAnEarlierVersion(t *testing.T) {
	var got map[task.ID]notion.Choice
	must(t, json.Unmarshal([]byte(`{"a":"s1","b":{"Wanted":"Sprint","Source":"s2"}}`), &got))
	same(t, map[task.ID]notion.Choice{"a": {Source: "s1"}, "b": {Wanted: "Sprint", Source: "s2"}}, got, "choices")
}

// A start asks for the data source alone; a new choice is found at the next query.
func TestChoiceOfADataSourceInUse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page(props{"Name": title("task")})
		id := task.ID(w.databases.Tasks)
		w.client.Choose(id, key, "  ") // which says nothing
		w.tasks(notion.TaskSchema{})
		w.sent()
		tasks := w.tasks(notion.TaskSchema{})
		w.took(1, "opening again")
		w.client.Choose(id, key, " Tasks ")
		for _, want := range []int{3, 1} {
			same(w, []string{"task"}, titles(w.rows(tasks, notion.Query{})), "rows")
			w.took(want, "a query")
			w.client.Choose(id, key, "Tasks")
		}
	})
}

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
