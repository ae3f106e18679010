package setup_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/notion/emulator"
	"dibs/internal/setup"
	"dibs/internal/testkit"
)

// Conditions that no task meets are a problem, which names what there is. The plan always says how
// many tasks are offered.
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
			w.options.Given.Tasks = w.database("Backlog", map[string]any{
				"Name": of("title"), "status": of("status", "OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"),
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
			if zero := strings.HasPrefix(p.SayOffered(), "0 open tasks would be offered to agents"); zero != (problem != "") {
				w.Errorf("it says %q", p.SayOffered())
			}
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
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Area": of("select", "Agents")})
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
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title"), "status": of("status", "OPEN"), "Area": of("select", "Agents"), "Ready": of("checkbox")})
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
			if untouched := row.Edited.Equal(row.Created); untouched == rows[row.ID] {
				w.Errorf("%s, ticked %v: written to %v", row.Title(), rows[row.ID], !untouched)
			}
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
		edit := func(id string, to map[string]any) {
			testkit.OK(w, w.notion.EditPage(id, to))
		}
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
			if got[rows[i]] != want {
				w.Errorf("row %d is %s, want %s", i, got[rows[i]], want)
			}
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
