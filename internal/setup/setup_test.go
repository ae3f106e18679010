package setup_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/setup"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// world is a workspace with an empty page, in a bubble of virtual time.
type world struct {
	*testing.T
	notion    *emulator.Emulator
	transport http.RoundTripper
	page      task.ID
	options   setup.Options
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		em := testkit.Got(emulator.New(emulator.Options{}))(t)
		defer em.Close()
		w := &world{T: t, notion: em, transport: em.Client().Transport}
		defer w.transport.(*http.Transport).CloseIdleConnections()
		w.page = w.newPage("Team")
		em.ResetRequests()

		c := config.Default()
		c.Notion.Token = config.Secret(em.Token())
		w.options = setup.Options{Config: c, Saved: config.Default(), File: filepath.Join(t.TempDir(), "dibs", "config.yaml"), Parent: w.page}
		test(w)
	})
}

// ask sends a request like another client of the workspace.
func (w *world) ask(method, path, body string, answer any) {
	w.Helper()
	req := testkit.Got(http.NewRequestWithContext(w.Context(), method, "http://notion"+path, strings.NewReader(body)))(w)
	req.Header.Set("Authorization", "Bearer "+w.notion.Token())
	req.Header.Set("Notion-Version", "2022-06-28")
	resp := testkit.Got(w.notion.Client().Transport.RoundTrip(req))(w)
	defer resp.Body.Close()
	err := json.NewDecoder(resp.Body).Decode(answer)
	testkit.Require(w, err == nil && resp.StatusCode == 200, "%s %s: %d, %v", method, path, resp.StatusCode, err)
}

func (w *world) client() *notion.Client {
	w.Helper()
	client := testkit.Got(workspace.Connect(w.options.Config.Notion, w.transport, slog.New(slog.DiscardHandler)))(w)
	return client
}

// plan makes a plan, which must not change anything.
func (w *world) plan() *setup.Plan {
	w.Helper()
	w.options.Client = w.client()
	w.notion.ResetRequests()
	p := testkit.Got(setup.New(w.Context(), w.options))(w)
	changes := w.changes()
	testkit.Check(w, len(changes) == 0, "planning sent %v", changes)
	return p
}

// changes returns the requests that may have changed something.
func (w *world) changes() []string {
	var out []string
	for _, r := range w.notion.Requests() {
		if r.Method != "GET" && !strings.HasSuffix(r.Path, "/query") {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

func (w *world) apply(p *setup.Plan) {
	w.Helper()
	testkit.Must(w, p.Apply(w.Context(), func(setup.Step) {}))
}

// again loads what the plan wrote, as the next run does.
func (w *world) again(p *setup.Plan) {
	w.Helper()
	c := testkit.Got(config.Load(config.Options{File: p.File}))(w)
	c.Notion.Token = config.Secret(w.notion.Token())
	w.options.Config, w.options.Saved = c, c
}

// complete checks that a plan's databases lack nothing.
func (w *world) complete(p *setup.Plan) {
	w.Helper()
	client := w.client()
	tasks := testkit.Got(client.Tasks(w.Context(), p.Config.Databases.Tasks, workspace.Schema(p.Config)))(w)
	warnings := tasks.Warnings()
	testkit.Check(w, len(warnings) == 0, "the tasks database: %q", warnings)
	for log, id := range map[claim.Log]string{claim.TaskLog: p.Config.Databases.TaskLog, claim.MeshLog: p.Config.Databases.MeshLog} {
		db := testkit.Got(client.Database(w.Context(), id))(w)
		for _, f := range db.ExamineLog(wording.Example(log), task.ID(p.Config.Databases.Tasks)) {
			testkit.Check(w, f.Grade == notion.Fits, "the %s log has no place for %s", log, f.Key)
		}
	}
}

func actions(p *setup.Plan) []string {
	out := []string{}
	for _, s := range p.Steps {
		out = append(out, string(s.Action)+" "+s.Database)
	}
	return out
}

func TestFromNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		want := []string{
			"create tasks", "add tasks", "add tasks", "add tasks", "add tasks", "view tasks",
			"create task_log", "add task_log", "create mesh_log", "add mesh_log", "write ",
		}
		diff := cmp.Diff(want, actions(p))
		testkit.Require(w, diff == "", "plan (-want +got):\n%s", diff)
		w.apply(p)
		w.complete(p)
		db, err := w.client().Database(w.Context(), p.Config.Databases.Tasks)
		if err != nil || db.Columns["status"].Type != "status" || db.Columns["ID"].Type != "unique_id" || db.Columns["depends_on"].Source != db.Source {
			w.Errorf("the tasks database is %+v, err = %v", db, err)
		}

		w.again(p)
		again := w.settled()
		testkit.Check(w, len(again.Notes) == 0, "a second run would note %q", again.Notes)
	})
}

// TestEveryInterruption lets each change fail in each way, and runs the command again.
func TestEveryInterruption(t *testing.T) {
	for _, kind := range []emulator.FaultKind{emulator.Error500, emulator.SavedBut503} {
		for skip := range 6 {
			runIn(t, fmt.Sprint(kind, skip), func(w *world) {
				remove := w.notion.Inject(emulator.Fault{
					Match: func(r *http.Request, _ []byte) bool { return r.Method != "GET" },
					Skip:  skip, Times: 1, Kind: kind,
				})
				p := w.plan()
				testkit.Fails(w, p.Apply(w.Context(), func(setup.Step) {}), "run the same again")
				testkit.Refused(os.Stat(w.options.File))(w)
				remove()
				time.Sleep(10 * time.Minute) // longer than any pause
				p = w.plan()
				w.apply(p)
				w.complete(p)
				below, err := w.client().Below(w.Context(), w.page)
				testkit.Check(w, err == nil && len(below) == 3, "the page holds %v, err = %v, want three databases", below, err)
			})
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// schemaOf returns a database's schema as the API shows it.
func (w *world) schemaOf(id string) map[string]map[string]any {
	w.Helper()
	var db struct {
		Properties map[string]map[string]any `json:"properties"`
	}
	w.ask("GET", "/v1/databases/"+id, "", &db)
	return db.Properties
}

func (w *world) database(title string, schema map[string]any) string {
	w.Helper()
	id := testkit.Got(w.notion.CreateDatabase(title, schema))(w)
	return id
}

// columns are those of a database beside its title.
type columns map[string]any

// backlog makes the team's tasks database.
func (w *world) backlog(c columns) {
	w.Helper()
	c["Name"] = of("title")
	w.options.Given.Tasks = w.database("Backlog", c)
}

func of(kind string, options ...string) any {
	config := map[string]any{}
	if len(options) > 0 {
		var list []any
		for i, name := range options {
			list = append(list, map[string]any{"name": name, "color": []string{"red", "blue", "pink"}[i%3]})
		}
		config["options"] = list
	}
	return map[string]any{kind: config}
}

func TestUpgradeChangesNothingThatIsThere(t *testing.T) {
	for _, kind := range []string{"status", "select"} {
		runIn(t, kind, func(w *world) {
			w.options.Parent = ""
			given := &w.options.Given
			given.Tasks = w.database("Backlog", map[string]any{
				"Task": of("title"), "Status": of(kind, "Idea", "Open", "In progress", "Completed"), "Claimed By": of("rich_text"),
				"priority": of("number"), "Owner": of("people"), "Place": of("place"),
			})
			given.TaskLog = w.database("Work", map[string]any{"What": of("title"), "Result": of("select", "completed"), "Started": of("date"), "summary": of("number")})
			given.MeshLog = w.database("Mesh", map[string]any{"Name": of("title")})
			before := make(map[string]map[string]map[string]any)
			for _, id := range []string{given.Tasks, given.TaskLog, given.MeshLog} {
				before[id] = w.schemaOf(id)
			}

			p := w.plan()
			testkit.Require(w, len(p.Problems) == 0, "problems: %q", p.Problems)
			w.apply(p)
			for id, was := range before {
				is := w.schemaOf(id)
				for name, property := range was {
					if name == "Status" { // new options follow the old ones
						had, has := optionsOf(property, kind), optionsOf(is[name], kind)
						testkit.Same(w, had, has[:len(had)], "options")
						continue
					}
					testkit.Same(w, property, is[name], "%s", name)
				}
			}
			for _, name := range []string{"status", "claimed_by", "started", "outcome"} {
				for id := range before {
					_, ok := w.schemaOf(id)[name]
					testkit.Check(w, !ok, "%s was added beside one of a similar name", name)
				}
			}
			var names []string
			for _, o := range optionsOf(w.schemaOf(given.Tasks)["Status"], kind) {
				names = append(names, o.(map[string]any)["name"].(string))
			}
			testkit.Same(w, []string{"Idea", "Open", "In progress", "Completed", "BLOCKED", "CANCELLED"}, names, "options")
			tasks, err := w.client().Tasks(w.Context(), given.Tasks, workspace.Schema(p.Config))
			testkit.Check(w, err == nil && len(tasks.Warnings()) == 1 && strings.Contains(tasks.Warnings()[0], "priority"),
				"err = %v, warnings %q, want one of the priority", err, tasks.Warnings())

			w.again(p)
			w.options.Given = config.Databases{}
			w.settled()
		})
	}
}

func optionsOf(property map[string]any, kind string) []any {
	return property[kind].(map[string]any)["options"].([]any)
}

func TestWhatKeepsAPlanFromBeingCarriedOut(t *testing.T) {
	tests := map[string]struct {
		prepare func(w *world)
		says    string
	}{
		"a property of another type": {
			func(w *world) { w.backlog(columns{"claimed_at": of("rich_text")}) },
			`"claimed_at" is of type rich_text, want date`,
		},
		"a configuration that says otherwise": {
			func(w *world) {
				testkit.Must(w, os.MkdirAll(filepath.Dir(w.options.File), 0o700))
				testkit.Must(w, os.WriteFile(w.options.File, []byte("# mine\n"), 0o600))
			},
			"is there and says otherwise: give --force",
		},
	}
	for name, tt := range tests {
		runIn(t, name, func(w *world) {
			tt.prepare(w)
			p := w.plan()
			testkit.Check(w, len(p.Problems) == 1 && strings.Contains(p.Problems[0], tt.says),
				"problems: %q, want %q", p.Problems, tt.says)
			err := p.Apply(w.Context(), func(setup.Step) {})
			testkit.Check(w, err != nil && len(w.changes()) == 0, "err = %v, sent %v, want a refusal and nothing sent", err, w.changes())
		})
	}
}

// A person's database that happens to be called Tasks is left alone.
func TestNamesakes(t *testing.T) {
	inWorld(t, func(w *world) {
		var theirs struct {
			ID string `json:"id"`
		}
		w.ask("POST", "/v1/databases", fmt.Sprintf(`{"parent":{"page_id":%q},"title":[{"text":{"content":"Tasks"}}],"properties":{"Name":{"title":{}}}}`, w.page), &theirs)
		before := w.schemaOf(theirs.ID)
		p := w.plan()
		w.apply(p)
		w.complete(p)
		if diff := cmp.Diff(before, w.schemaOf(theirs.ID)); diff != "" || p.Config.Databases.Tasks == theirs.ID {
			w.Errorf("somebody's own database was used (-before +after):\n%s", diff)
		}
	})
}

func TestReplaceKeepsWhatElseIsConfigured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Saved.Claim.Settle = 7 * time.Second
		w.options.Config.Claim.Settle = 8 * time.Second // in the environment
		w.options.Saved.Agents = []config.Agent{{Name: "Sandman"}}
		w.options.Replace = true
		testkit.Must(w, os.MkdirAll(filepath.Dir(w.options.File), 0o700))
		testkit.Must(w, os.WriteFile(w.options.File, []byte("claim: {settle: 7s}\nagents: [Sandman]\n"), 0o600))
		p := w.plan()
		testkit.Require(w, slices.Contains(actions(p), "write "), "plan: %v", p.Steps)
		w.apply(p)
		c, err := config.Load(config.Options{File: w.options.File})
		testkit.Check(w, err == nil && c.Claim.Settle == 7*time.Second && len(c.Agents) == 1 && c.Databases == p.Config.Databases,
			"read again: %+v, err = %v", c, err)
	})
}

// A board may have its names in another form of Unicode than the configuration. They are the same
// names, and Notion gets them as it has them.
func TestNamesInAnotherForm(t *testing.T) {
	const composed, apart = "\u00fc", "u\u0308" // ü
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Aufgaben", map[string]any{
			"Name": of("title"), "Zust" + apart + "ndig": of("rich_text"),
			"Pr" + apart + "fstand": grouped([]string{"Offen"}, []string{"L" + apart + "uft"}, []string{"Gepr" + apart + "ft"}),
		})
		w.options.Map = map[string]string{
			"claimed_by": "Zust" + composed + "ndig", "status": "Pr" + composed + "fstand", "completed": "Gepr" + composed + "ft", "blocked": "Gest" + composed + "tzt",
		}
		p := w.plan()
		if len(p.Problems)+len(p.Unanswered()) > 0 || slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return strings.Contains(s.What, "ndig") }) {
			w.Fatalf("problems %q, questions %v, steps %v", p.Problems, p.Questions, p.Steps)
		}
		id := testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Zust" + apart + "ndig": text("J" + apart + "rgen")}))(w)
		before := len(optionsOf(w.schemaOf(w.options.Given.Tasks)["Pr"+apart+"fstand"], "status"))
		w.apply(p)
		w.complete(p)
		schema := w.schemaOf(w.options.Given.Tasks)
		if after := len(optionsOf(schema["Pr"+apart+"fstand"], "status")); after != before+1 || schema["Pr"+composed+"fstand"] != nil {
			w.Errorf("the status has %d options, and had %d; there is a second one: %v", after, before, schema["Pr"+composed+"fstand"] != nil)
		}
		w.again(p)
		tasks := testkit.Got(w.client().Tasks(w.Context(), w.options.Given.Tasks, workspace.Schema(w.options.Config)))(w)
		got, err := tasks.Get(w.Context(), task.ID(id))
		testkit.Check(w, err == nil && got.Task.ClaimedBy == "J"+composed+"rgen" && got.Task.Status == task.Open,
			"the task is %+v, %v", got.Task, err)
		if _, err := tasks.Write(w.Context(), task.ID(id), claim.Write{Status: new(task.Completed)}); err != nil {
			w.Error(err)
		}
		page, _ := w.notion.Page(id)
		testkit.Check(w, page.Select("Pr"+apart+"fstand") == "Gepr"+apart+"ft", "the page shows %q", page.Select("Pr"+apart+"fstand"))
	})
}

// Optional statuses are added if they are asked for, and only then.
func TestOptionalStatuses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{})
		p := w.plan()
		w.apply(p)
		s := p.Config.Tasks.Statuses
		testkit.Check(w, s.Review == "" && s.Failed == "", "without being asked: %+v", s)
		w.again(p)

		w.options.Replace = true
		w.options.Map = map[string]string{"review": "REVIEW", "failed": "Given up"}
		if p := w.plan(); len(p.Problems) > 0 || p.Steps[0].String() != "extend tasks: status by REVIEW, Given up" {
			w.Errorf("problems %q, steps %v", p.Problems, p.Steps)
		}
		w.options.Map = map[string]string{"review": "REVIEW", "failed": ""}
		p = w.plan()
		w.apply(p)
		if s := p.Config.Tasks.Statuses; s.Review != "REVIEW" || s.Failed != "" {
			w.Errorf("the statuses are %+v", s)
		}
		got := w.group(w.options.Given.Tasks, p.Config.Tasks.Properties.Status, "REVIEW")
		testkit.Check(w, got == "In progress", "REVIEW is in group %q", got)
		c, err := config.Load(config.Options{File: p.File, FileOnly: true})
		testkit.Check(w, err == nil && c.Tasks.Statuses.Review == "REVIEW", "the file says %+v, %v", c.Tasks.Statuses, err)
		w.again(p)
		w.settled()
	})
}

// source adds a minimal data source to a database.
func (w *world) source(database, name string) string {
	w.Helper()
	id := testkit.Got(w.notion.AddDataSource(database, name, map[string]any{"Name": of("title"), "Status": of("status", "OPEN")}))(w)
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
				testkit.Check(w, err != nil && strings.Contains(err.Error(), part), "err = %v, want %q", err, part)
			}
		}
		refused(`databases.tasks: database "Backlog" has several data sources, "Backlog" (`, "set databases.tasks_source")
		given.TasksSource = "Sprints"
		refused(`has no data source "Sprints"`)
		given.TasksSource = "Sprint"
		refused("databases.mesh_log: database", "set databases.mesh_log_source")
		w.options.Config.Databases.MeshLogSource = mesh // in the environment, say

		p := w.plan()
		testkit.Require(w, len(p.Problems) == 0, "problems: %q", p.Problems)
		var what []string
		for _, s := range p.Steps {
			what = append(what, s.String())
		}
		testkit.Says(w, "the plan does not say where:\n", strings.Join(what, "\n"), `to "Sprint"`, `to "Talk"`)
		w.apply(p)
		want := config.Databases{
			Tasks: given.Tasks, TasksSource: "Sprint", TaskLog: given.TaskLog, MeshLog: given.MeshLog, MeshLogSource: mesh,
			TaskLogSource: w.named(given.TaskLog, "Work"), // the only one: another may come
		}
		testkit.Same(w, want, p.Config.Databases, "databases")
		w.again(p)
		testkit.Same(w, want, w.options.Config.Databases, "databases as written")
		w.options.Given = config.Databases{}
		w.settled()
		// The others are unchanged.
		testkit.Must(w, w.notion.TrashDataSource(w.named(want.Tasks, "Sprint")))
		schema := w.schemaOf(want.Tasks)
		testkit.Check(w, len(schema) == 1, "the other data source has %v", schema)
	})
}

// named returns the id of a data source.
func (w *world) named(database, name string) string {
	w.Helper()
	source := testkit.Got(w.client().FindSource(w.Context(), task.ID(database), "k", name))(w)
	return string(source.ID)
}

// A new database has one data source, which is written down, even if another one was named.
func TestADatabaseThatIsMadeHasOneDataSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Config.Databases.TasksSource = "Sprint"
		p := w.plan()
		w.apply(p)
		got, want := p.Config.Databases.TasksSource, w.named(p.Config.Databases.Tasks, "Tasks")
		testkit.Check(w, got == want, "the data source is %q, want %q", got, want)
		w.again(p)
		w.settled()
	})
}

// runIn runs a test of that name in a world.
func runIn(t *testing.T, name string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, test) })
}

// settled makes the plan of a second run, which has to be of nothing.
func (w *world) settled() *setup.Plan {
	w.Helper()
	p := w.plan()
	testkit.Check(w, len(p.Steps)+len(p.Guesses)+len(p.Problems)+len(p.Questions) == 0,
		"a second run would %v, guess %v, problems %q, questions %v", p.Steps, p.Guesses, p.Problems, p.Questions)
	return p
}

// Conditions that no task meets are a problem, which names what there is. The plan always says how many tasks are offered.
func TestConditionsThatNothingMeets(t *testing.T) {
	for only, problem := range map[string]string{
		"Area=agents":    "",
		"Area=Agnets":    "0 open tasks would be offered to agents: none of 3 has Area=Agnets: Area may be Agents, Marketing, Empty",
		"Area=Empty":     "0 open tasks would be offered to agents: none of 3 has Area=Empty: Area may be Agents, Marketing, Empty",
		"Ready=Agents":   "0 open tasks would be offered to agents: none of 3 has Ready=Agents: Ready may be yes, no",
		"Team=Baker":     "0 open tasks would be offered to agents: none of 3 has Team=Baker: Team is Able, Charlie, empty",
		"Size=large":     "0 open tasks would be offered to agents: none of 3 has Size=large: Size is 3, empty",
		"Team=":          "",
		"Area=Marketing": "",
	} {
		runIn(t, only, func(w *world) {
			w.backlog(columns{"status": of("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
				"Area": of("select", "Agents", "Marketing", "Empty"), "Ready": of("checkbox"), "Team": of("rich_text"), "Size": of("number"),
			})
			choose := func(name string) any { return map[string]any{"select": map[string]any{"name": name}} }
			for _, row := range []map[string]any{
				{"Area": choose("Agents"), "Team": text("Able"), "Size": map[string]any{"number": 3}},
				{"Area": choose("Marketing"), "Team": text("Charlie")},
				{"Area": choose("Marketing")},
			} {
				testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, row))(w)
			}
			w.options.Only = []string{only}
			p := w.plan()
			said := strings.Join(p.Problems, "\n")
			testkit.Check(w, said == problem && p.Surveyed, "problems %q, want %q; surveyed: %v", said, problem, p.Surveyed)
			zero := strings.HasPrefix(p.SayOffered(), "0 open tasks would be offered to agents")
			testkit.Check(w, zero == (problem != ""), "it says %q", p.SayOffered())
			if problem != "" {
				return
			}
			w.apply(p)
			w.again(p)
			for _, row := range w.notion.Pages(w.options.Given.Tasks) { // by now all is done
				testkit.Must(w, w.notion.EditPage(row.ID, map[string]any{"status": map[string]any{"status": map[string]any{"name": "COMPLETED"}}}))
			}
			w.settled()
		})
	}
}

// A property that is not there, or that nothing can be compared with, is a problem as well.
func TestConditionOnNoProperty(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"status": of("status", "OPEN"), "Area": of("select", "Agents")})
		w.options.Only = []string{"Aera=Agents"}
		p := w.plan()
		if len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0], `0 open tasks would be offered to agents: database "Backlog": `) ||
			!strings.Contains(p.Problems[0], "its properties are Area (select), Name (title)") {
			w.Errorf("problems %q", p.Problems)
		}
	})
}

// Without open tasks, only what no task can ever meet is a problem.
func TestConditionsOnAnEmptyBoard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"status": of("status", "OPEN"), "Area": of("select", "Agents"), "Ready": of("checkbox")})
		for only, problems := range map[string]int{"Area=Agents": 0, "Area=": 0, "Ready=true": 0, "Ready=yes": 0, "Area=Agnets": 1, "Ready=maybe": 1} {
			w.options.Only = []string{only}
			p := w.plan()
			testkit.Check(w, len(p.Problems) == problems && p.Surveyed, "%s: problems %q", only, p.Problems)
		}
	})
}

func text(s string) any {
	return map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": s}}}}
}

// A board with nothing but a box gets a status. What is ticked becomes COMPLETED, also if that is
// interrupted; nothing else is written to.
func TestTickedRowsGetTheirStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Shopping", map[string]any{"Thing": of("title"), "Erledigt": of("checkbox")})
		rows := map[string]bool{}
		for i := range 6 {
			id := testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, map[string]any{
				"Thing":    map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": fmt.Sprint(i)}}}},
				"Erledigt": map[string]any{"checkbox": i%2 == 0},
			}))(w)
			rows[id] = i%2 == 0
		}
		time.Sleep(time.Minute) // Notion's times are whole minutes
		p := w.plan()
		if len(p.Offered) != 3 || !slices.ContainsFunc(p.Steps, func(s setup.Step) bool {
			return s.String() == "complete tasks: 3 rows that are ticked in Erledigt: status COMPLETED"
		}) {
			w.Errorf("%d offered, steps %v", len(p.Offered), p.Steps)
		}
		remove := w.notion.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.Forbidden403, Skip: 1})
		err := p.Apply(w.Context(), func(setup.Step) {})
		testkit.Require(w, err != nil, "the plan was carried out although Notion refused a part")
		remove()
		again := w.plan()
		testkit.Check(w, len(again.Offered) == 3 && len(again.Problems) == 0,
			"again: %d offered, problems %q", len(again.Offered), again.Problems)
		w.apply(again)
		for _, row := range w.notion.Pages(w.options.Given.Tasks) {
			if got := row.Select("status"); got != map[bool]string{true: "COMPLETED", false: "OPEN"}[rows[row.ID]] {
				w.Errorf("%s, ticked %v: %s", row.Title(), rows[row.ID], got)
			}
			untouched := row.Edited.Equal(row.Created)
			testkit.Check(w, untouched != rows[row.ID], "%s, ticked %v: written to %v", row.Title(), rows[row.ID], !untouched)
		}
	})
}

// An adoption that ended too early goes on with the rows that still show what Notion gave them. A row
// that was given a status since keeps it, and one whose tick was taken off stays as it is, also if
// that happens while the others are written.
func TestTickedRowsKeepTheirStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Shopping", map[string]any{"Thing": of("title"), "Erledigt": of("checkbox")})
		off := map[string]any{"Erledigt": map[string]any{"checkbox": false}}
		blocked := map[string]any{"status": map[string]any{"status": map[string]any{"name": "BLOCKED"}}}
		var rows []string
		for range 5 {
			id := testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Erledigt": map[string]any{"checkbox": true}}))(w)
			rows = append(rows, id)
			time.Sleep(time.Minute) // listed in this order
		}
		edit := func(id string, to map[string]any) { testkit.OK(w, w.notion.EditPage(id, to)) }
		remove := w.notion.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.Forbidden403, Skip: 1})
		err := w.plan().Apply(w.Context(), func(setup.Step) {})
		testkit.Require(w, err != nil, "the plan was carried out although Notion refused a part")
		remove()
		edit(rows[1], blocked)
		plain := w.transport
		defer func() { w.transport = plain }()
		w.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, rows[2]) {
				edit(rows[3], off)
				edit(rows[4], blocked)
			}
			return plain.RoundTrip(req)
		})
		again := w.plan()
		if first := again.Steps[0].String(); first != "complete tasks: 3 rows that are ticked in Erledigt: status COMPLETED" {
			w.Errorf("the new run begins with %q", first)
		}
		w.apply(again)
		got := map[string]string{}
		for _, row := range w.notion.Pages(w.options.Given.Tasks) {
			got[row.ID] = row.Select("status")
		}
		for i, want := range []string{"COMPLETED", "BLOCKED", "COMPLETED", "OPEN", "BLOCKED"} {
			testkit.Check(w, got[rows[i]] == want, "row %d is %s, want %s", i, got[rows[i]], want)
		}
	})
}

// A team's own status is left as it is, whatever the boxes say, and whatever the property is called.
func TestTeamsStatusIsNotWritten(t *testing.T) {
	for _, name := range []string{"Stand", "Status", "status"} {
		inWorld(t, func(w *world) {
			w.options.Given.Tasks = w.database("Aufgaben", map[string]any{"Name": of("title"), name: of("status", "Offen", "Erledigt"), "Fertig": of("checkbox")})
			testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Fertig": map[string]any{"checkbox": true}}))(w)
			p := w.plan()
			if slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return s.Action == setup.Complete }) || len(p.Offered) > 0 {
				w.Errorf("%s: steps %v, %d offered: want the row left alone", name, p.Steps, len(p.Offered))
			}
		})
	}
}
