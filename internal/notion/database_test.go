package notion_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

const key = "databases.tasks_source"

// sprint adds a data source with all that tasks need to the tasks database, and
// names it.
func (w *world) sprint() string {
	w.Helper()
	columns := complete()
	columns["depends_on"] = props{"relation": props{"database_id": w.databases.Tasks, "single_property": props{}}}
	id, err := w.emulator.AddDataSource(w.databases.Tasks, "Sprint", columns)
	if err != nil {
		w.Fatal(err)
	}
	w.client.Choose(task.ID(w.databases.Tasks), key, "Sprint")
	return id
}

// A data source that is named by its id is read without looking for it. One of another database is
// refused, with what there is.
func TestDataSourceNamedByItsID(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.databases.Tasks)
		sprint := w.sprint()
		mesh, err := w.client.FindSource(w.Context(), task.ID(w.databases.MeshLog), "", "")
		if err != nil {
			w.Fatal(err)
		}
		const none = `has no data source "`
		for wanted, want := range map[string]string{sprint: "", string(mesh.ID): none, w.databases.Tasks: none} {
			w.client.Choose(id, key, wanted)
			w.emulator.ResetRequests()
			db, err := w.client.Database(w.Context(), string(id))
			if want == "" && (err != nil || string(db.Source) != sprint || len(w.emulator.Requests()) != 1) {
				w.Errorf("by its id: %v, %v, %d requests", db.Source, err, len(w.emulator.Requests()))
			}
			if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"Sprint" (`)) {
				w.Errorf("%s: %v, want %q", wanted, err, want)
			}
		}
	})
}

func TestTasksOfADataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.page(props{"Name": title("other")})
		sprint := w.sprint()
		id := w.pageIn(sprint, props{"Name": title("task"), "status": status("OPEN")})
		w.emulator.ResetRequests()
		tasks := w.tasks(notion.TaskSchema{})
		if n := len(w.emulator.Requests()); n != 2 {
			w.Errorf("opening took %d requests, want one to find the data source and one to read it", n)
		}
		if warnings := tasks.Warnings(); len(warnings) != 0 {
			w.Errorf("warnings: %q", warnings)
		}
		rows, _, err := tasks.Query(w.Context(), notion.Query{UnfinishedOnly: true})
		if diff := cmp.Diff([]string{"task"}, titles(rows)); err != nil || diff != "" {
			w.Errorf("rows (-want +got):\n%s%v", diff, err)
		}
		if _, err := tasks.Write(w.Context(), id, claimed("Sandman", dawn)); err != nil {
			w.Fatal(err)
		}
		if got := w.get(tasks, id); got.ClaimedBy != "Sandman" || got.Status != task.InProgress {
			w.Errorf("the task shows %+v", got)
		}
		_, err = tasks.Get(w.Context(), other)
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.Kind != claim.NotFound || !strings.Contains(err.Error(), "another data source") {
			w.Errorf("a page of the other data source: %v", err)
		}
		for page, want := range map[task.ID]string{id: sprint, task.ID(w.pageIn(w.databases.MeshLog, props{})): ""} {
			got, err := w.client.SourceOf(w.Context(), page)
			if err != nil || want != "" && string(got) != want || got == "" {
				w.Errorf("page %s is in %q, %v", page, got, err)
			}
		}
		if err := tasks.Check(w.Context()); err != nil {
			w.Error(err)
		}

		// The scratch row of a probe is made there, too.
		if _, err := tasks.Probe(w.Context(), "probe", 1); err != nil {
			w.Fatal(err)
		}
		rows, _, err = tasks.Query(w.Context(), notion.Query{})
		if err != nil || len(rows) != 1 {
			w.Errorf("after a probe: %d rows, %v", len(rows), err)
		}
		for _, p := range w.emulator.Pages(w.databases.Tasks) {
			if p.Title() == "probe, write 1 of 1" && !p.Trashed {
				w.Error("the scratch row is left")
			}
		}
	})
}

func TestPropertiesAreAddedToTheDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		sprint, err := w.emulator.AddDataSource(w.databases.Tasks, "Sprint", props{"Name": of("title"), "status": of("status", "OPEN")})
		if err != nil {
			w.Fatal(err)
		}
		id := task.ID(w.databases.Tasks)
		w.client.Choose(id, key, sprint)
		w.emulator.ResetRequests()
		db, err := w.client.AddColumns(w.Context(), id, notion.NewColumn{Name: "claimed_by", Type: "rich_text"}, notion.NewColumn{Name: "depends_on", Type: "relation"})
		if err != nil {
			w.Fatal(err)
		}
		if string(db.ID) != w.databases.Tasks || string(db.Source) != sprint || db.Title != "Sprint" || string(db.Columns["depends_on"].Source) != sprint || db.Columns["claimed_by"].Type != "rich_text" {
			w.Errorf("the database is %+v", db)
		}
		for _, r := range w.emulator.Requests() {
			if r.Method == "PATCH" && (!strings.Contains(string(r.Body), `"data_source_id":"`+sprint+`"`) || strings.Contains(string(r.Body), "database_id")) {
				w.Errorf("the relation was asked for as %s", r.Body)
			}
		}
		if db, err = w.client.Extend(w.Context(), id, notion.NewColumn{Name: "status", Options: []string{"OPEN", "BLOCKED"}}); err != nil || len(db.Columns["status"].Options) != 2 {
			w.Errorf("the status is %+v, %v", db.Columns["status"], err)
		}
	})
}

func TestLogOfADataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		id := task.ID(w.databases.MeshLog)
		log, err := w.client.RecallLog(string(id))
		if err != nil {
			w.Fatal(err)
		}
		second, err := w.emulator.AddDataSource(string(id), "Log", props{"Title": of("title"), "entry_id": of("rich_text")})
		if err != nil {
			w.Fatal(err)
		}
		entry := wording.Entry{ID: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K", Title: "entry"}
		err = log.Create(w.Context(), entry)
		var which *notion.SourceError
		var failed *claim.StoreError
		if !errors.As(err, &which) || !errors.As(err, &failed) || failed.Landed != claim.LandedNo || !strings.Contains(err.Error(), "move all but one") {
			w.Errorf("err = %v, want that there are several", err)
		}
		w.client.Choose(id, "k", "Log")
		if err := log.Create(w.Context(), entry); err != nil {
			w.Fatal(err)
		}
		if found, err := log.Find(w.Context(), entry); err != nil || !found {
			w.Errorf("found = %v, %v", found, err)
		}
		// Another choice is gone by at once.
		w.client.Choose(id, "k", "Mesh Communication Log")
		if found, err := log.Find(w.Context(), entry); err != nil || found {
			w.Errorf("found = %v, %v", found, err)
		}
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
		ideas, err := w.emulator.AddDataSource(w.databases.Tasks, "Ideas", props{"Idea": of("title")})
		if err != nil {
			w.Fatal(err)
		}
		idea := w.pageIn(ideas, props{"Idea": title("Fly")})
		if _, err := tasks.Get(w.Context(), idea); err == nil {
			w.Error("a page of the other data source was taken for a task")
		}
		if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 0 || tasks.Broken() != nil {
			w.Errorf("%d rows, %v, broken: %v; want the other data source not to matter", len(rows), err, tasks.Broken())
		}
		w.client.Choose(id, key, "Sprint")
		w.client.Choose(id, key, "")
		w.client.RecallSources(map[task.ID]notion.Choice{id: {Source: "11111111-2222-4333-8444-555555555555"}})
		if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil || !strings.Contains(err.Error(), "is not shared") {
			w.Errorf("err = %v, want that there is no such data source", err)
		}
		if _, err := w.client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{}); err == nil || !strings.Contains(err.Error(), "set "+key) {
			w.Errorf("err = %v, want that a choice is to be made", err)
		}
		w.client.Choose(id, key, "Tasks")
		if _, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || tasks.Broken() != nil || w.client.Sources()[id].Source != known[id].Source {
			w.Errorf("%v, broken: %v; want the tasks in %s", err, tasks.Broken(), known[id].Source)
		}
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
			client, err := notion.New(notion.Options{Token: w.emulator.Token(), Transport: w.transport})
			if err != nil {
				w.Fatal(err)
			}
			client.Choose(task.ID(w.databases.Tasks), key, wanted)
			client.RecallSources(known)
			return client.RecallTasks(w.databases.Tasks, schema)
		}
		for _, wanted := range []string{"", "Tasks", sprint} {
			if _, err := fresh(wanted); err == nil {
				w.Errorf("recalled %q as what was named %q", "Sprint", wanted)
			}
		}
		w.emulator.ResetRequests()
		tasks, err := fresh("Sprint")
		if err != nil || len(w.emulator.Requests()) != 0 {
			w.Fatalf("%v, %d requests", err, len(w.emulator.Requests()))
		}
		other := w.page(props{"Name": title("other")})
		_, err = tasks.Get(w.Context(), other)
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		if !isFailed || failed.Kind != claim.NotFound || tasks.Broken() != nil {
			w.Errorf("a page of the other data source: %v, broken: %v", err, tasks.Broken())
		}
	})
}

// What an earlier version of dibs kept of data sources counts.
func TestChoicesOfAnEarlierVersion(t *testing.T) {
	var got map[task.ID]notion.Choice
	err := json.Unmarshal([]byte(`{"a":"s1","b":{"Wanted":"Sprint","Source":"s2"}}`), &got)
	want := map[task.ID]notion.Choice{"a": {Source: "s1"}, "b": {Wanted: "Sprint", Source: "s2"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

// A start asks for the data source alone; a new choice is found at the next query.
func TestChoiceOfADataSourceInUse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.page(props{"Name": title("task")})
		id := task.ID(w.databases.Tasks)
		w.client.Choose(id, key, "  ") // which says nothing
		w.tasks(notion.TaskSchema{})
		w.emulator.ResetRequests()
		tasks := w.tasks(notion.TaskSchema{})
		if n := len(w.emulator.Requests()); n != 1 {
			w.Errorf("opening again took %d requests, want one", n)
		}
		w.client.Choose(id, key, " Tasks ")
		for i, want := range []int{3, 1} {
			w.emulator.ResetRequests()
			if rows, _, err := tasks.Query(w.Context(), notion.Query{}); err != nil || len(rows) != 1 {
				w.Errorf("%d rows, %v", len(rows), err)
			}
			if n := len(w.emulator.Requests()); n != want {
				w.Errorf("query %d took %d requests, want %d", i, n, want)
			}
			w.client.Choose(id, key, "Tasks")
		}
	})
}
