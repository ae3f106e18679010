package setup_test

import (
	"strings"
	"testing"
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
		t.Run(only, func(t *testing.T) {
			inWorld(t, func(w *world) {
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
					if _, err := w.notion.CreatePage(w.options.Given.Tasks, row); err != nil {
						w.Fatal(err)
					}
				}
				w.options.Only = []string{only}
				p := w.plan()
				if said := strings.Join(p.Problems, "\n"); said != problem || !p.Surveyed {
					w.Errorf("problems %q, want %q; surveyed: %v", said, problem, p.Surveyed)
				}
				if zero := strings.HasPrefix(p.SayOffered(), "0 open tasks would be offered to agents"); zero != (problem != "") {
					w.Errorf("it says %q", p.SayOffered())
				}
				if problem != "" {
					return
				}
				w.apply(p)
				w.again(p)
				for _, row := range w.notion.Pages(w.options.Given.Tasks) { // by now all is done
					if err := w.notion.EditPage(row.ID, map[string]any{"status": map[string]any{"status": map[string]any{"name": "COMPLETED"}}}); err != nil {
						w.Fatal(err)
					}
				}
				if again := w.plan(); len(again.Problems)+len(again.Steps) > 0 {
					w.Errorf("a second run has problems %q, steps %v", again.Problems, again.Steps)
				}
			})
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
			if p := w.plan(); len(p.Problems) != problems || !p.Surveyed {
				w.Errorf("%s: problems %q", only, p.Problems)
			}
		}
	})
}

func text(s string) any {
	return map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": s}}}}
}
