package setup_test

import (
	"slices"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/notion/workspace"
	"dibs/internal/setup"
	"dibs/internal/task"
)

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
		id, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Zust" + apart + "ndig": text("J" + apart + "rgen")})
		if err != nil {
			w.Fatal(err)
		}
		before := len(optionsOf(w.schemaOf(w.options.Given.Tasks)["Pr"+apart+"fstand"], "status"))
		w.apply(p)
		w.complete(p)
		schema := w.schemaOf(w.options.Given.Tasks)
		if after := len(optionsOf(schema["Pr"+apart+"fstand"], "status")); after != before+1 || schema["Pr"+composed+"fstand"] != nil {
			w.Errorf("the status has %d options, and had %d; there is a second one: %v", after, before, schema["Pr"+composed+"fstand"] != nil)
		}
		w.again(p)
		tasks, err := w.client().Tasks(w.Context(), w.options.Given.Tasks, workspace.Schema(w.options.Config))
		if err != nil {
			w.Fatal(err)
		}
		got, err := tasks.Get(w.Context(), task.ID(id))
		if err != nil || got.Task.ClaimedBy != "J"+composed+"rgen" || got.Task.Status != task.Open {
			w.Errorf("the task is %+v, %v", got.Task, err)
		}
		if _, err := tasks.Write(w.Context(), task.ID(id), claim.Write{Status: new(task.Completed)}); err != nil {
			w.Error(err)
		}
		if page, _ := w.notion.Page(id); page.Select("Pr"+apart+"fstand") != "Gepr"+apart+"ft" {
			w.Errorf("the page shows %q", page.Select("Pr"+apart+"fstand"))
		}
	})
}
