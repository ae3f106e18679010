package setup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// guesses returns a plan's guesses by key.
func guesses(p *setup.Plan) map[string]string {
	out := map[string]string{}
	for _, g := range p.Guesses {
		out[g.Key] = g.Name
	}
	return out
}

// names are those of a board, by key.
type names map[string]string

// Properties and statuses with other names are found by type and name.
func TestGuesses(t *testing.T) {
	for name, tt := range map[string]struct {
		schema columns
		want   names
	}{
		"English": {
			columns{
				"State": of("select", "To do", "Doing", "Done", "On hold", "Won't do"), "Assignee": of("select", "Sandman"),
				"Prio": of("select", "high"), "Due": of("date"), "Details": of("rich_text"),
			},
			names{
				"status": "State", "claimed_by": "Assignee", "priority": "Prio",
				"open": "To do", "in_progress": "Doing", "blocked": "On hold", "completed": "Done", "cancelled": "Won't do",
			},
		},
		"German": {
			columns{
				"Zustand": of("status", "Offen", "In Arbeit", "Blockiert", "Erledigt"), "Zuständig": of("rich_text"),
				"Übernommen am": of("date"), "Priorität": of("select", "hoch"), "Fällig": of("date"),
			},
			names{
				"status": "Zustand", "claimed_by": "Zuständig", "priority": "Priorität", "high": "hoch",
				"open": "Offen", "in_progress": "In Arbeit", "blocked": "Blockiert", "completed": "Erledigt",
			},
		},
		"French": {
			columns{
				"Statut": of("status", "Pas commencé", "En cours", "Bloqué", "Terminé", "Annulé"), "Pris par": of("rich_text"),
				"Pris le": of("date"), "Priorité": of("select", "Haute", "Basse"), "Échéance": of("date"), "Responsable": of("people"),
			},
			names{
				"status": "Statut", "claimed_by": "Pris par", "priority": "Priorité", "assignee": "Responsable",
				"open": "Pas commencé", "in_progress": "En cours", "blocked": "Bloqué", "completed": "Terminé", "cancelled": "Annulé", "high": "Haute", "low": "Basse",
			},
		},
		"Spanish": {
			columns{
				"Estado": of("select", "Sin empezar", "En curso", "En espera", "Listo", "Descartado"), "Asignado a": of("rich_text"),
				"Prioridad": of("status", "Alta", "Media", "Baja"), "Fecha límite": of("date"),
			},
			names{
				"status": "Estado", "claimed_by": "Asignado a", "priority": "Prioridad",
				"open": "Sin empezar", "in_progress": "En curso", "blocked": "En espera", "completed": "Listo", "cancelled": "Descartado",
				"high": "Alta", "medium": "Media", "low": "Baja",
			},
		},
		"a status by its type":      {columns{"How far": of("status", "OPEN")}, names{"status": "How far"}},
		"people stand for no agent": {columns{"status": of("status", "OPEN"), "Assignee": of("people")}, names{"assignee": "Assignee"}},
		"when a task is done": {
			columns{"status": of("status", "OPEN"), "Acceptance Criteria": of("rich_text"), "Definition of Done": of("checkbox")},
			names{"done_when": "Acceptance Criteria"},
		},
		"what a task touches": {
			columns{"status": of("status", "OPEN"), "Touched files": of("multi_select")}, names{"touches": "Touched files"},
		},
		"one column of people": {
			columns{"status": of("status", "OPEN"), "Kümmert sich": of("people")}, names{"assignee": "Kümmert sich"},
		},
		"one of several columns of people": {
			columns{"status": of("status", "OPEN"), "Relecture": of("people"), "Responsable": of("people")},
			names{"assignee": "Responsable"},
		},
		"several columns of people": {
			columns{"status": of("status", "OPEN"), "Reviewer": of("people"), "Tester": of("people")}, names{},
		},
		"data that a claim would overwrite": {
			columns{"status": of("status", "OPEN"), "Claimed on": of("date"), "Timeout": of("number"), "Token": of("rich_text")}, names{},
		},
		"of a type that will not do": {
			columns{"State": of("checkbox"), "Assignee": of("number"), "Start date": of("date"), "Blocked by": of("rich_text")}, names{},
		},
		"the names of dibs": {
			columns{"status": of("select", "OPEN"), "State": of("select", "To do"), "Claimed By": of("rich_text")}, names{},
		},
	} {
		runIn(t, name, func(w *world) {
			w.backlog(tt.schema)
			p := w.plan()
			testkit.Same(w, tt.want, names(guesses(p)), "guesses")
			testkit.Require(w, len(p.Problems) == 0, "problems: %q", p.Problems)
			w.apply(p)
			w.complete(p)
			w.again(p)
			if got := w.options.Config.Tasks.Properties.Status; tt.want["status"] != "" && got != tt.want["status"] {
				w.Errorf("the file calls the status %q, want %q", got, tt.want["status"])
			}
			w.settled()
		})
	}
}

// A team's column of people is never guessed as the one that dibs writes, even where agents have Notion users.
func TestPeopleAreNotOverwritten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"status": of("status", "OPEN"), "Owner": of("people")})
		w.options.Config.Agents = []config.Agent{{Name: "Sandman", NotionUser: "6794760a-1f15-45cd-9c65-0dfe42f5135a"}}
		testkit.Same(w, map[string]string{"assignee": "Owner"}, guesses(w.plan()), "guesses")
	})
}

// Given names take precedence over guesses, and must exist.
func TestGivenNames(t *testing.T) {
	schema := map[string]any{
		"Name": of("title"), "State": of("select", "To do", "Done"), "Phase": of("select", "Idea", "Built"), "claimed_by": of("rich_text"), "claimed_at": of("date"),
	}
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Backlog", schema)
		w.options.Map = map[string]string{"status": "Phase", "open": "Idea", "completed": "Built", "note": "", "priority": "priority"}
		p := w.plan()
		testkit.Require(w, len(p.Guesses)+len(p.Problems) == 0, "guesses %v, problems %q", p.Guesses, p.Problems)
		got := p.Config.Tasks
		if got.Properties.Status != "Phase" || got.Properties.Note != "" || got.Statuses.Open != "Idea" || got.Statuses.Completed != "Built" {
			w.Errorf("names %+v %+v", got.Properties, got.Statuses)
		}
		w.options.Map = map[string]string{"status": "Sttae", "open": "To do"}
		said := strings.Join(w.plan().Problems, "\n")
		testkit.Says(w, "problems", said,
			`database "Backlog" has no property "Sttae", which --map gives as status: its properties are Name (title), Phase (select), State (select), claimed_at (date), claimed_by (rich_text)`,
		)
		w.options.Map = map[string]string{"status": "State", "open": "Idea"}
		if p := w.plan(); len(p.Problems) > 0 || p.Steps[0].String() != "extend tasks: State by Idea" {
			w.Errorf("problems %q, steps %v: want the option added", p.Problems, p.Steps)
		}
		w.options.Map = map[string]string{"status": "State", "open": "To do, too", "blocked": ""}
		testkit.Says(w, "problems", strings.Join(w.plan().Problems, "\n"), "no comma in the name of an option", "--map blocked=: every board has this status")
		w.options.Map = map[string]string{"claim_timeout_minutes": "Phase"}
		testkit.Says(w, "said", strings.Join(append(w.plan().Notes, w.plan().Problems...), "\n"), `"Phase" is of type select`)
	})
}

// group returns the group of a status option.
func (w *world) group(database, property, option string) string {
	w.Helper()
	var db struct {
		Properties map[string]struct {
			Status struct {
				Options []struct{ ID, Name string }
				Groups  []struct {
					Name      string
					OptionIDs []string `json:"option_ids"`
				}
			}
		}
	}
	w.ask("GET", "/v1/databases/"+database, "", &db)
	s := db.Properties[property].Status
	for _, o := range s.Options {
		for _, g := range s.Groups {
			for _, id := range g.OptionIDs {
				if o.Name == option && id == o.ID {
					return g.Name
				}
			}
		}
	}
	return ""
}

var wantGroups = map[string]string{
	"OPEN": "To-do", "IN_PROGRESS": "In progress", "BLOCKED": "In progress", "COMPLETED": "Complete", "CANCELLED": "Complete",
}

// New options go into their groups, and existing ones stay where they are.
func TestGroupsOfAStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		w.backlog(columns{"status": map[string]any{"status": map[string]any{
			"options": []any{map[string]any{"name": "Idea"}, map[string]any{"name": "Shipped", "group": "Complete"}},
		}}})
		w.again(p)
		w.options.Replace = true
		w.options.Map = map[string]string{"open": "OPEN", "in_progress": "IN_PROGRESS", "blocked": "BLOCKED", "completed": "COMPLETED", "cancelled": "CANCELLED"}
		grown := w.plan()
		w.apply(grown)
		for option, want := range wantGroups {
			got := w.group(p.Config.Databases.Tasks, "status", option)
			testkit.Check(w, got == want, "%s is in %q, want %q", option, got, want)
			got = w.group(w.options.Given.Tasks, "status", option)
			testkit.Check(w, got == want, "%s, added, is in %q, want %q", option, got, want)
		}
		idea, shipped := w.group(w.options.Given.Tasks, "status", "Idea"), w.group(w.options.Given.Tasks, "status", "Shipped")
		testkit.Check(w, idea == "To-do" && shipped == "Complete", "Idea is in %q, and Shipped in %q", idea, shipped)
	})
}

// refuse lets Notion refuse requests with any of these parts in their bodies.
func (w *world) refuse(parts ...string) {
	next := w.transport
	w.transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body == nil {
			return next.RoundTrip(req)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if bytes.Contains(body, []byte(part)) {
				answer := `{"object":"error","status":400,"code":"validation_error","message":"body should be something else","request_id":"r"}`
				return &http.Response{
					StatusCode: 400, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: req,
				}, nil
			}
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		return next.RoundTrip(req)
	})
}

// Optional steps are done, and if Notion refuses one, a note says how to do it by hand.
func TestWhatPeopleSee(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		if board, err := w.client().HasBoard(w.Context(), task.ID(p.Config.Databases.Tasks)); err != nil || !board {
			w.Errorf("the tasks have a board: %t, %v", board, err)
		}
		if board, err := w.client().HasBoard(w.Context(), "00000000-0000-0000-0000-000000000000"); err == nil || board {
			w.Errorf("a database that is not there has a board: %v", err)
		}
		db, err := w.client().Database(w.Context(), p.Config.Databases.MeshLog)
		tasks, terr := w.client().Database(w.Context(), p.Config.Databases.Tasks)
		testkit.Check(w, err == nil && terr == nil && db.Columns["task"].Source == tasks.Source,
			"the task of an entry is %+v, %v", db.Columns["task"], err)
	})
	inWorld(t, func(w *world) {
		w.refuse(`"unique_id"`, `"claimed_until":{"formula"`, `"type":"board"`, `"task":{"relation"`)
		p := w.plan()
		w.apply(p)
		said := strings.Join(p.Notes, "\n")
		testkit.Says(w, "notes", said,
			"ID (unique_id) was left out", "claimed_until (formula) was left out, as Notion refused it", `by hand: add a property claimed_until of type formula: dateAdd(prop("claimed_at"), if(prop("claim_timeout_minutes") > 0, prop("claim_timeout_minutes"), 30), "minutes")`,
			`"Board", a board by status was left out`, "by hand: open the database in Notion, add a view of type board, and group it by status",
			"task (relation) was left out", "by hand: add a property task of type relation, to the tasks",
		)
		w.complete(p)
	})
}

// The options of a column of priorities are understood by their words, P0 to P5 among them; what is
// not certain is left alone.
func TestGuessedPriorities(t *testing.T) {
	for name, tt := range map[string]struct {
		options []string
		want    string // JSON
		left    string // in a note
	}{
		"dibs's own":   {[]string{"low", "medium", "high", "critical"}, `{}`, ""},
		"English":      {[]string{"Low", "Medium", "High", "Urgent"}, `{"critical":"Urgent","high":"High","low":"Low","medium":"Medium"}`, ""},
		"five":         {[]string{"Lowest", "Low", "Medium", "High", "Highest"}, `{"critical":"Highest","high":"High","low":["Lowest","Low"],"medium":"Medium"}`, ""},
		"German":       {[]string{"Dringend", "Hoch", "Mittel", "Niedrig"}, `{"critical":"Dringend","high":"Hoch","low":"Niedrig","medium":"Mittel"}`, ""},
		"German, long": {[]string{"Hohe Priorität", "Mittlere Priorität", "Geringe Priorität", "Keine"}, `{"high":"Hohe Priorität","low":"Geringe Priorität","medium":"Mittlere Priorität"}`, ""},
		"French":       {[]string{"Très haute", "Haute", "Moyenne", "Basse"}, `{"critical":"Très haute","high":"Haute","low":"Basse","medium":"Moyenne"}`, ""},
		"Spanish":      {[]string{"Urgente", "Alta", "Media", "Baja"}, `{"critical":"Urgente","high":"Alta","low":"Baja","medium":"Media"}`, ""},
		"emoji":        {[]string{"🧊 Low", "🔥 High", "1️⃣ – Critical"}, `{"critical":"1️⃣ – Critical","high":"🔥 High","low":"🧊 Low"}`, ""},
		"P0 to P3":     {[]string{"P3", "P0", "P1", "P2"}, `{"critical":"P0","high":"P1","low":"P3","medium":"P2"}`, ""},
		"P0 to P4":     {[]string{"P0", "P1", "P2", "P3", "P4"}, `{"critical":"P0","high":"P1","low":["P3","P4"],"medium":"P2"}`, ""},
		"words count":  {[]string{"P1 – High", "P2 – Medium", "P3 – Low"}, `{"high":"P1 – High","low":"P3 – Low","medium":"P2 – Medium"}`, ""},
		"one more":     {[]string{"Alta", "Baja", "Algún día"}, `{"high":"Alta","low":"Baja"}`, "Algún día"},

		"no priorities":   {[]string{"Media", "Print", "Web"}, `{}`, "Media, Print, Web"},
		"versions":        {[]string{"Major", "Minor", "Patch"}, `{}`, "Major, Minor, Patch"},
		"two questions":   {[]string{"Wichtig", "Dringend", "Wichtig & dringend"}, `{}`, "Wichtig, Dringend, Wichtig & dringend"},
		"its opposite":    {[]string{"Urgent", "Important", "Not urgent"}, `{}`, "Urgent, Important, Not urgent"},
		"estimates":       {[]string{"1", "2", "3", "keine"}, `{}`, "1, 2, 3"},
		"stars":           {[]string{"★", "★★", "★★★"}, `{}`, "★, ★★, ★★★"},
		"levels in words": {[]string{"Prio 1", "Prio 2"}, `{}`, "Prio 1, Prio 2"},
		"a gap":           {[]string{"P0", "P2", "P3"}, `{"critical":"P0","low":"P3","medium":"P2"}`, ""},
		"twice the same":  {[]string{"P1", "🔥 P1", "P2"}, `{"high":["P1","🔥 P1"],"medium":"P2"}`, ""},
	} {
		runIn(t, name, func(w *world) {
			w.backlog(columns{"status": of("select", "OPEN"), "claimed_by": of("rich_text"), "claimed_at": of("date"), "priority": of("select", tt.options...)})
			p := w.plan()
			got, err := json.Marshal(slices.Concat(p.Guesses, p.Adopted))
			testkit.Check(w, err == nil && string(got) == tt.want, "guesses %s, %v, want %s", got, err, tt.want)
			c := p.Config.Tasks.Priorities
			for _, g := range slices.Concat(p.Guesses, p.Adopted) {
				names := map[string][]string{"critical": c.Critical, "high": c.High, "medium": c.Medium, "low": c.Low}[g.Key]
				if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, g.Name) }) {
					w.Errorf("the configuration does not name %s: %+v", g, c)
				}
			}
			note := strings.Join(p.Notes, "\n")
			told := strings.Contains(note, "nothing says what priority "+tt.left+" is, so tasks with it are offered last")
			testkit.Check(w, told == (tt.left != ""), "notes %q, want %q to be left", note, tt.left)
			w.apply(p)
			w.again(p)
			w.settled()
		})
	}
}

// Names that are given are not guessed, and belong to one priority.
func TestGivenPriorities(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"status": of("select", "OPEN"), "claimed_by": of("rich_text"), "claimed_at": of("date"),
			"priority": of("select", "Critical", "Hoch", "Mittel", "Niedrig", "Irgendwann"),
		})
		w.options.Map = map[string]string{"high": "Critical, Hoch", "low": "Irgendwann"}
		p := w.plan()
		got := p.Config.Tasks.Priorities
		diff := cmp.Diff([][]string{{}, {"Critical", "Hoch"}, {"Mittel"}, {"Irgendwann"}}, [][]string{got.Critical, got.High, got.Medium, got.Low})
		testkit.Check(w, diff == "" && len(p.Problems) == 0, "priorities (-want +got):\n%s\nproblems %q", diff, p.Problems)
		note := strings.Join(p.Notes, "\n")
		testkit.Check(w, strings.Contains(note, "what priority Niedrig is,"), "notes %q", note)
		w.options.Map = map[string]string{"high": "Hohc", "low": "Hoch", "medium": "hoch"}
		said := strings.Join(w.plan().Problems, "\n")
		testkit.Says(w, "problems", said,
			`property "priority" has no option "Hohc", which --map gives as high: its options are Critical, Hoch, Mittel, Niedrig, Irgendwann`,
			`--map gives "Hoch" as medium and as low: give it once`,
		)
	})
}

// newPage makes a further page.
func (w *world) newPage(title string) task.ID {
	w.Helper()
	var page struct {
		ID task.ID `json:"id"`
	}
	w.ask("POST", "/v1/pages", fmt.Sprintf(`{"parent":{"workspace":true},"properties":{"title":{"title":[{"text":{"content":%q}}]}}}`, title), &page)
	return page.ID
}

// With another page, databases are found or made there, whatever is configured; a configured one on
// that page is used, whatever its name.
func TestAnotherPage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		w.again(p)
		first := p.Config.Databases

		w.options.Parent = w.newPage("Another team")
		p = w.plan()
		if got := actions(p); !slices.Contains(got, "create tasks") || !slices.Contains(got, "create task_log") || !slices.Contains(got, "create mesh_log") {
			w.Errorf("plan: %v", got)
		}
		testkit.Says(w, "notes", strings.Join(p.Notes, "\n"), "databases.task_log is "+first.TaskLog+" so far, which does not lie on that page: give --task-log "+first.TaskLog+", or no --parent")
		testkit.Check(w, len(p.Problems) == 1 && strings.Contains(p.Problems[0], "give --force"), "problems: %q", p.Problems)
		w.options.Replace = true
		p = w.plan()
		w.apply(p)
		w.complete(p)
		w.again(p)
		if second := w.options.Config.Databases; second.Tasks == first.Tasks || second.TaskLog == first.TaskLog || second.MeshLog == first.MeshLog {
			w.Errorf("databases %+v, want none of %+v", second, first)
		}

		w.ask("PATCH", "/v1/databases/"+p.Config.Databases.Tasks, `{"title":[{"text":{"content":"Backlog"}}]}`, new(any))
		again := w.settled()
		testkit.Check(w, len(again.Notes) == 0, "a second run would note %q", again.Notes)
	})
}

// A parent that is not a page is an error, even if it is not needed.
func TestNoSuchPage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.plan()
		w.apply(p)
		w.again(p)
		w.options.Given = p.Config.Databases
		w.options.Parent = "11111111-1111-1111-1111-111111111111"
		w.options.Client = w.client()
		_, err := setup.New(w.Context(), w.options)
		testkit.Check(w, err != nil && strings.Contains(err.Error(), "the page for the databases: "), "err = %v", err)
	})
}

// Databases in the environment override the written file.
func TestEnvironmentWithOtherDatabases(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Config.Databases.MeshLog = w.database("Mesh", map[string]any{"Name": of("title")}) // in the environment
		p := w.plan()
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "unset DIBS_DATABASES_MESH_LOG") || strings.Contains(notes, "DIBS_DATABASES_TASK") {
			w.Errorf("notes: %q", p.Notes)
		}
		w.options.Parent = ""
		w.backlog(columns{})
		w.options.Given.TaskLog = w.database("Work", map[string]any{"Name": of("title")})
		p = w.plan()
		w.apply(p)
		notes := strings.Join(p.Notes, "\n")
		testkit.Check(w, !strings.Contains(notes, "DIBS_DATABASES"), "notes: %q", p.Notes)
		c, err := config.Load(config.Options{File: p.File, FileOnly: true})
		testkit.Check(w, err == nil && c.Databases.MeshLog == w.options.Config.Databases.MeshLog,
			"the file says %+v, %v, want the database that was set up", c.Databases, err)
	})
}

// A property of type people is used only if agents have Notion users.
func TestClaimedByOfPeople(t *testing.T) {
	for _, user := range []string{"", "6794760a-1f15-45cd-9c65-0dfe42f5135a"} {
		runIn(t, "user "+user, func(w *world) {
			w.options.Config.Agents = []config.Agent{{Name: "Oracle"}, {Name: "Sandman", NotionUser: user}}
			w.options.Saved = w.options.Config
			w.backlog(columns{"Claimed By": of("people")})
			p := w.plan()
			w.apply(p)
			want := "claimed_by"
			if user != "" {
				want = "Claimed By"
			}
			got := p.Config.Tasks.Properties.ClaimedBy
			testkit.Check(w, got == want, "claimed_by is %q, want %q", got, want)
			_, added := w.schemaOf(w.options.Given.Tasks)["claimed_by"]
			testkit.Check(w, added == (user == ""), "claimed_by was added: %v", added)
			notes := strings.Join(p.Notes, "\n")
			testkit.Check(w, strings.Contains(notes, "agents[].notion_user"), "notes: %q", p.Notes)
			w.again(p)
			w.settled()
		})
	}
}

// A long pause that Notion asks for is reported instead of waited for.
func TestPausedPlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.notion.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Hour})
		w.options.Client = w.client()
		start := time.Now()
		_, err := setup.New(w.Context(), w.options)
		failed, isFailed := errors.AsType[*claim.StoreError](err)
		testkit.Check(w, isFailed && failed.RetryAfter >= 10*time.Minute && time.Since(start) <= 5*time.Second,
			"err = %v, after %v", err, time.Since(start))
	})
}

// grouped is a status with options in the three groups that every status has.
func grouped(todo, doing, done []string) any {
	var options []any
	for i, names := range [][]string{todo, doing, done} {
		for _, name := range names {
			options = append(options, map[string]any{"name": name, "group": []string{"To-do", "In progress", "Complete"}[i]})
		}
	}
	return map[string]any{"status": map[string]any{"options": options}}
}

// boardsInLanguages are boards as people make them from Notion's own template, or much like it.
var boardsInLanguages = map[string]struct {
	status, priority  string
	todo, doing, done []string
	priorities        []string
	// blocked is the word for BLOCKED that the board lacks; empty if it has one.
	blocked string
	want    map[string]string // the guesses
}{
	"Japanese": {
		"ステータス", "優先度", []string{"未着手"}, []string{"進行中"}, []string{"完了"}, []string{"高", "中", "低"}, "保留",
		map[string]string{"open": "未着手", "in_progress": "進行中", "completed": "完了", "high": "高", "medium": "中", "low": "低"},
	},
	"Korean": {
		"상태", "우선순위", []string{"시작 전"}, []string{"진행 중", "보류"}, []string{"완료", "취소"}, []string{"높음", "중간", "낮음"}, "",
		map[string]string{"open": "시작 전", "in_progress": "진행 중", "blocked": "보류", "completed": "완료", "cancelled": "취소", "high": "높음", "medium": "중간", "low": "낮음"},
	},
	"Chinese": {
		"状态", "优先级", []string{"未开始"}, []string{"进行中"}, []string{"已完成"}, []string{"高", "中", "低"}, "阻塞",
		map[string]string{"open": "未开始", "in_progress": "进行中", "completed": "已完成", "high": "高", "medium": "中", "low": "低"},
	},
	"Portuguese": {
		"Status", "Prioridade", []string{"Não iniciada"}, []string{"Em andamento", "Bloqueada"}, []string{"Concluída", "Cancelada"}, []string{"Alta", "Média", "Baixa"}, "",
		map[string]string{"open": "Não iniciada", "in_progress": "Em andamento", "blocked": "Bloqueada", "completed": "Concluída", "cancelled": "Cancelada", "high": "Alta", "medium": "Média", "low": "Baixa"},
	},
	"Dutch": {
		"Status", "Prioriteit", []string{"Niet gestart"}, []string{"Bezig"}, []string{"Klaar"}, []string{"Hoog", "Gemiddeld", "Laag"}, "Geblokkeerd",
		map[string]string{"open": "Niet gestart", "in_progress": "Bezig", "completed": "Klaar", "high": "Hoog", "medium": "Gemiddeld", "low": "Laag"},
	},
	"Polish": {
		"Stan", "Priorytet", []string{"Nie rozpoczęto"}, []string{"W toku"}, []string{"Gotowe"}, []string{"Wysoki", "Średni", "Niski"}, "Zablokowane",
		map[string]string{"status": "Stan", "open": "Nie rozpoczęto", "in_progress": "W toku", "completed": "Gotowe", "high": "Wysoki", "medium": "Średni", "low": "Niski"},
	},
	"Russian": {
		"Статус", "Приоритет", []string{"Не начато"}, []string{"В работе"}, []string{"Готово"}, []string{"Высокий", "Средний", "Низкий"}, "Заблокировано",
		map[string]string{"open": "Не начато", "in_progress": "В работе", "completed": "Готово", "high": "Высокий", "medium": "Средний", "low": "Низкий"},
	},
	"emoji": {
		"🚦 Status", "🔥 Priority", []string{"📥 To do"}, []string{"🚧 Doing", "⛔ Blocked"}, []string{"✅ Done", "🗑️ Dropped"}, []string{"🔴 High", "🟡 Medium", "🟢 Low"}, "",
		map[string]string{"open": "📥 To do", "in_progress": "🚧 Doing", "completed": "✅ Done", "cancelled": "🗑️ Dropped", "high": "🔴 High", "medium": "🟡 Medium", "low": "🟢 Low"},
	},
	"a language that dibs has no word of": {
		"Stöðu", "Forgangur (Priority)", []string{"Óbyrjað"}, []string{"Í vinnslu"}, []string{"Lokið"}, []string{"Hár", "Lágur"}, "Stopp",
		map[string]string{"status": "Stöðu", "open": "Óbyrjað", "in_progress": "Í vinnslu", "completed": "Lokið"},
	},
}

// What a team's own status and priority mean is found in any language. Nothing is added beside what is
// there, but the board's word for BLOCKED, which a person has to give.
func TestBoardsInLanguages(t *testing.T) {
	for name, tt := range boardsInLanguages {
		runIn(t, name, func(w *world) {
			w.backlog(columns{tt.status: grouped(tt.todo, tt.doing, tt.done), tt.priority: of("select", tt.priorities...)})
			testkit.Got(w.notion.CreatePage(w.options.Given.Tasks, map[string]any{tt.priority: map[string]any{"select": map[string]any{"name": tt.priorities[0]}}}))(w)
			p := w.plan()
			got := guesses(p)
			for _, key := range []string{"status", "priority"} { // by their names
				if name := map[string]string{"status": tt.status, "priority": tt.priority}[key]; tt.want[key] == "" && got[key] == name {
					delete(got, key)
				}
			}
			testkit.Same(w, tt.want, got, "guesses")
			testkit.Check(w, len(p.Offered) == 1, "%d tasks are offered, want 1", len(p.Offered))
			for _, s := range p.Steps {
				if strings.Contains(s.What, "CANCELLED") || strings.Contains(s.What, "priority (") || s.Action == setup.AddOptions {
					w.Errorf("%s: beside what is there", s)
				}
			}
			if tt.blocked != "" {
				if len(p.Questions) != 1 || p.Questions[0].Key != "blocked" || !strings.Contains(p.Questions[0].String(), "--map blocked=") {
					w.Errorf("questions %v, want the board's word for BLOCKED", p.Questions)
				}
				err := p.Apply(w.Context(), func(setup.Step) {})
				testkit.Check(w, err != nil && strings.Contains(err.Error(), "--map blocked="), "without an answer: %v", err)
				w.options.Map = map[string]string{"blocked": tt.blocked}
				if p = w.plan(); p.Steps[0].Action != setup.AddOptions || !strings.HasSuffix(p.Steps[0].What, " by "+tt.blocked) {
					w.Errorf("the plan begins with %s", p.Steps[0])
				}
			}
			testkit.Require(w, len(p.Questions)+len(p.Problems) == 0, "questions %v, problems %q", p.Questions, p.Problems)
			if last := p.Steps[len(p.Steps)-2]; last.Action != setup.AddProperties || last.Database != "tasks" {
				w.Errorf("the last step before the file is %s, want new columns", last)
			}
			w.apply(p)
			w.complete(p)
			options := slices.Concat(tt.todo, tt.doing, tt.done)
			if tt.blocked != "" {
				options = append(options, tt.blocked)
				got := w.group(w.options.Given.Tasks, tt.status, tt.blocked)
				testkit.Check(w, got == "In progress", "%s is in group %q", tt.blocked, got)
			}
			var there []string
			for _, o := range optionsOf(w.schemaOf(w.options.Given.Tasks)[tt.status], "status") {
				there = append(there, o.(map[string]any)["name"].(string))
			}
			testkit.Check(w, sameNames(options, there), "the status has %q, want %q", there, options)
			w.again(p)
			w.settled()
		})
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Of several options in a group, one is taken, and the plan says so: a person is asked. A word decides
// first, then the team's order.
func TestSeveralOptionsInAGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"ステータス": grouped([]string{"アイデア", "📥 未着手"}, []string{"作業", "確認", "保留"}, []string{"公開"})})
		p := w.plan()
		var said []string
		for _, q := range p.Questions {
			said = append(said, q.String())
		}
		want := []string{
			`which option of "ステータス" is OPEN? 📥 未着手 is taken, of アイデア, 📥 未着手; another: --map open=NAME`,
			`which option of "ステータス" is IN_PROGRESS? 作業 is taken, of 作業, 確認; another: --map in_progress=NAME`,
		}
		testkit.Same(w, want, said, "questions")
		got := guesses(p)
		testkit.Check(w, got["blocked"] == "保留" && got["completed"] == "公開" && got["cancelled"] == "", "guesses %v", got)
		w.options.Map = map[string]string{"open": "アイデア", "in_progress": "確認", "cancelled": "中止"}
		p = w.plan()
		if s := p.Config.Tasks.Statuses; len(p.Questions)+len(p.Problems) > 0 || s.Open != "アイデア" || s.InProgress != "確認" {
			w.Errorf("questions %v, problems %q, statuses %+v", p.Questions, p.Problems, s)
		}
		first := p.Steps[0].String()
		testkit.Check(w, first == "extend tasks: ステータス by 中止", "the plan begins with %s", first)
		w.apply(p)
		w.complete(p)
		if got := w.group(w.options.Given.Tasks, "ステータス", "中止"); got != "Complete" {
			w.Errorf("中止 is in group %q", got)
		}
	})
}

// An English board gets dibs's own words for what it lacks, unless it is to do without.
func TestEnglishBoardDoesWithout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"Status": grouped([]string{"To do"}, []string{"Doing"}, []string{"Done"})})
		for given, want := range map[string]string{"CANCELLED": "BLOCKED, CANCELLED", "": "BLOCKED"} {
			w.options.Map = map[string]string{"cancelled": given}
			if p := w.plan(); p.Steps[0].String() != "extend tasks: Status by "+want {
				w.Errorf("cancelled=%s: the plan begins with %s", given, p.Steps[0])
			}
		}
	})
}

// A select has no groups: where its words say nothing, a person has to say what they mean.
func TestSelectInAnotherLanguage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backlog(columns{"Status": of("select", "Óbyrjað", "Í vinnslu", "Lokið")})
		p := w.plan()
		var keys []string
		for _, q := range p.Questions {
			keys = append(keys, q.Key)
		}
		testkit.Same(w, []string{"open", "in_progress", "blocked", "completed"}, keys, "questions")
		if said := p.Questions[0].String(); said != `which option of "Status" is OPEN? Give --map open=NAME: one of Óbyrjað, Í vinnslu, Lokið, or a new one in the board's language` {
			w.Errorf("it asks %s", said)
		}
		if slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return s.Action == setup.AddOptions }) {
			w.Errorf("steps %v", p.Steps)
		}
	})
}

// A plan names the first tasks that agents would be offered, and says where there are more.
func TestSayOffered(t *testing.T) {
	p := setup.Plan{Offered: []task.Task{{Title: "a"}}}
	if got := p.SayOffered(); got != "1 open task would be offered to agents: “a”" {
		t.Error(got)
	}
	for range 4 {
		p.Offered = append(p.Offered, task.Task{Title: "b"})
	}
	if got := p.SayOffered(); got != "5 open tasks would be offered to agents: “a”, “b”, “b”, “b”, “b”" {
		t.Error(got)
	}
	p.Offered = append(p.Offered, task.Task{Title: "c"})
	if got := p.SayOffered(); !strings.HasSuffix(got, "“b”, …") {
		t.Error(got)
	}
}
