package setup_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/setup"
	"dibs/internal/task"

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

// Properties and statuses with other names are found by type and name.
func TestGuesses(t *testing.T) {
	for name, tt := range map[string]struct {
		schema map[string]any
		want   map[string]string
	}{
		"English": {
			map[string]any{
				"Name": of("title"), "State": of("select", "To do", "Doing", "Done", "On hold", "Won't do"), "Assignee": of("select", "Sandman"),
				"Prio": of("select", "high"), "Due": of("date"), "Details": of("rich_text"),
			},
			map[string]string{
				"status": "State", "claimed_by": "Assignee", "priority": "Prio",
				"open": "To do", "in_progress": "Doing", "blocked": "On hold", "completed": "Done", "cancelled": "Won't do",
			},
		},
		"German": {
			map[string]any{
				"Aufgabe": of("title"), "Zustand": of("status", "Offen", "In Arbeit", "Blockiert", "Erledigt"), "Zuständig": of("rich_text"),
				"Übernommen am": of("date"), "Priorität": of("select", "hoch"), "Fällig": of("date"),
			},
			map[string]string{
				"status": "Zustand", "claimed_by": "Zuständig", "priority": "Priorität", "high": "hoch",
				"open": "Offen", "in_progress": "In Arbeit", "blocked": "Blockiert", "completed": "Erledigt",
			},
		},
		"French": {
			map[string]any{
				"Nom": of("title"), "Statut": of("status", "Pas commencé", "En cours", "Bloqué", "Terminé", "Annulé"), "Pris par": of("rich_text"),
				"Pris le": of("date"), "Priorité": of("select", "Haute", "Basse"), "Échéance": of("date"), "Responsable": of("people"),
			},
			map[string]string{
				"status": "Statut", "claimed_by": "Pris par", "priority": "Priorité", "assignee": "Responsable",
				"open": "Pas commencé", "in_progress": "En cours", "blocked": "Bloqué", "completed": "Terminé", "cancelled": "Annulé", "high": "Haute", "low": "Basse",
			},
		},
		"Spanish": {
			map[string]any{
				"Nombre": of("title"), "Estado": of("select", "Sin empezar", "En curso", "En espera", "Listo", "Descartado"), "Asignado a": of("rich_text"),
				"Prioridad": of("status", "Alta", "Media", "Baja"), "Fecha límite": of("date"),
			},
			map[string]string{
				"status": "Estado", "claimed_by": "Asignado a", "priority": "Prioridad",
				"open": "Sin empezar", "in_progress": "En curso", "blocked": "En espera", "completed": "Listo", "cancelled": "Descartado",
				"high": "Alta", "medium": "Media", "low": "Baja",
			},
		},
		"a status by its type": {
			map[string]any{"Name": of("title"), "How far": of("status", "OPEN")}, map[string]string{"status": "How far"},
		},
		"people stand for no agent": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Assignee": of("people")}, map[string]string{"assignee": "Assignee"},
		},
		"when a task is done": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Acceptance Criteria": of("rich_text"), "Definition of Done": of("checkbox")},
			map[string]string{"done_when": "Acceptance Criteria"},
		},
		"one column of people": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Kümmert sich": of("people")}, map[string]string{"assignee": "Kümmert sich"},
		},
		"one of several columns of people": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Relecture": of("people"), "Responsable": of("people")},
			map[string]string{"assignee": "Responsable"},
		},
		"several columns of people": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Reviewer": of("people"), "Tester": of("people")}, map[string]string{},
		},
		"data that a claim would overwrite": {
			map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Claimed on": of("date"), "Timeout": of("number"), "Token": of("rich_text")}, map[string]string{},
		},
		"of a type that will not do": {
			map[string]any{"Name": of("title"), "State": of("checkbox"), "Assignee": of("number"), "Start date": of("date"), "Blocked by": of("rich_text")}, map[string]string{},
		},
		"the names of dibs": {
			map[string]any{"Name": of("title"), "status": of("select", "OPEN"), "State": of("select", "To do"), "Claimed By": of("rich_text")}, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.Given.Tasks = w.database("Backlog", tt.schema)
				p := w.plan()
				if diff := cmp.Diff(tt.want, guesses(p)); diff != "" {
					w.Errorf("guesses (-want +got):\n%s", diff)
				}
				if len(p.Problems) > 0 {
					w.Fatalf("problems: %q", p.Problems)
				}
				w.apply(p)
				w.complete(p)
				w.again(p)
				if got := w.options.Config.Tasks.Properties.Status; tt.want["status"] != "" && got != tt.want["status"] {
					w.Errorf("the file calls the status %q, want %q", got, tt.want["status"])
				}
				if again := w.plan(); len(again.Steps)+len(again.Guesses)+len(again.Problems) > 0 {
					w.Errorf("a second run would %v, guess %v, problems %q", again.Steps, again.Guesses, again.Problems)
				}
			})
		})
	}
}

// A team's column of people is never guessed as the one that dibs writes, even where agents have
// Notion users.
func TestPeopleAreNotOverwritten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Owner": of("people")})
		w.options.Config.Agents = []config.Agent{{Name: "Sandman", NotionUser: "6794760a-1f15-45cd-9c65-0dfe42f5135a"}}
		if diff := cmp.Diff(map[string]string{"assignee": "Owner"}, guesses(w.plan())); diff != "" {
			w.Errorf("guesses (-want +got):\n%s", diff)
		}
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
		if len(p.Guesses)+len(p.Problems) > 0 {
			w.Fatalf("guesses %v, problems %q", p.Guesses, p.Problems)
		}
		got := p.Config.Tasks
		if got.Properties.Status != "Phase" || got.Properties.Note != "" || got.Statuses.Open != "Idea" || got.Statuses.Completed != "Built" {
			w.Errorf("names %+v %+v", got.Properties, got.Statuses)
		}
		w.options.Map = map[string]string{"status": "Sttae", "open": "To do"}
		said := strings.Join(w.plan().Problems, "\n")
		for _, part := range []string{
			`database "Backlog" has no property "Sttae", which --map gives as status: its properties are Name (title), Phase (select), State (select), claimed_at (date), claimed_by (rich_text)`,
		} {
			if !strings.Contains(said, part) {
				w.Errorf("problems %q, want %q", said, part)
			}
		}
		w.options.Map = map[string]string{"status": "State", "open": "Idea"}
		if p := w.plan(); len(p.Problems) > 0 || p.Steps[0].String() != "extend tasks: State by Idea" {
			w.Errorf("problems %q, steps %v: want the option added", p.Problems, p.Steps)
		}
		w.options.Map = map[string]string{"status": "State", "open": "To do, too", "blocked": ""}
		if said := strings.Join(w.plan().Problems, "\n"); !strings.Contains(said, "no comma in the name of an option") || !strings.Contains(said, "--map blocked=: every board has this status") {
			w.Errorf("problems %q", said)
		}
		w.options.Map = map[string]string{"claim_timeout_minutes": "Phase"}
		if said := strings.Join(append(w.plan().Notes, w.plan().Problems...), "\n"); !strings.Contains(said, `"Phase" is of type select`) {
			w.Errorf("said %q", said)
		}
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
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title"), "status": map[string]any{"status": map[string]any{
			"options": []any{map[string]any{"name": "Idea"}, map[string]any{"name": "Shipped", "group": "Complete"}},
		}}})
		w.again(p)
		w.options.Replace = true
		w.options.Map = map[string]string{"open": "OPEN", "in_progress": "IN_PROGRESS", "blocked": "BLOCKED", "completed": "COMPLETED", "cancelled": "CANCELLED"}
		grown := w.plan()
		w.apply(grown)
		for option, want := range wantGroups {
			if got := w.group(p.Config.Databases.Tasks, "status", option); got != want {
				w.Errorf("%s is in %q, want %q", option, got, want)
			}
			if got := w.group(w.options.Given.Tasks, "status", option); got != want {
				w.Errorf("%s, added, is in %q, want %q", option, got, want)
			}
		}
		if idea, shipped := w.group(w.options.Given.Tasks, "status", "Idea"), w.group(w.options.Given.Tasks, "status", "Shipped"); idea != "To-do" || shipped != "Complete" {
			w.Errorf("Idea is in %q, and Shipped in %q", idea, shipped)
		}
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
		if err != nil || terr != nil || db.Columns["task"].Source != tasks.Source {
			w.Errorf("the task of an entry is %+v, %v", db.Columns["task"], err)
		}
	})
	inWorld(t, func(w *world) {
		w.refuse(`"unique_id"`, `"claimed_until":{"formula"`, `"type":"board"`, `"task":{"relation"`)
		p := w.plan()
		w.apply(p)
		said := strings.Join(p.Notes, "\n")
		for _, part := range []string{
			"ID (unique_id) was left out", "claimed_until (formula) was left out, as Notion refused it", `by hand: add a property claimed_until of type formula: dateAdd(prop("claimed_at"), if(prop("claim_timeout_minutes") > 0, prop("claim_timeout_minutes"), 30), "minutes")`,
			`"Board", a board by status was left out`, "by hand: open the database in Notion, add a view of type board, and group it by status",
			"task (relation) was left out", "by hand: add a property task of type relation, to the tasks",
		} {
			if !strings.Contains(said, part) {
				w.Errorf("notes %s\nwant %q", said, part)
			}
		}
		w.complete(p)
	})
}
