package setup_test

import (
	"fmt"
	"slices"
	"testing"

	"dibs/internal/emulator"
	"dibs/internal/setup"
)

// A board with nothing but a box gets a status. What is ticked becomes COMPLETED, also if that is
// interrupted; nothing else is written to.
func TestTickedRowsGetTheirStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Shopping", map[string]any{"Thing": of("title"), "Erledigt": of("checkbox")})
		rows := map[string]bool{}
		for i := range 6 {
			id, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{
				"Thing":    map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": fmt.Sprint(i)}}}},
				"Erledigt": map[string]any{"checkbox": i%2 == 0},
			})
			if err != nil {
				w.Fatal(err)
			}
			rows[id] = i%2 == 0
		}
		p := w.plan()
		if len(p.Offered) != 3 || !slices.ContainsFunc(p.Steps, func(s setup.Step) bool {
			return s.String() == "complete tasks: 3 rows that are ticked in Erledigt: status COMPLETED"
		}) {
			w.Errorf("%d offered, steps %v", len(p.Offered), p.Steps)
		}
		remove := w.notion.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.Forbidden403, Skip: 1})
		if err := p.Apply(w.Context(), func(setup.Step) {}); err == nil {
			w.Fatal("the plan was carried out although Notion refused a part")
		}
		remove()
		again := w.plan()
		if len(again.Offered) != 3 || len(again.Problems) > 0 {
			w.Errorf("again: %d offered, problems %q", len(again.Offered), again.Problems)
		}
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

// A team's own status is left as it is, whatever the boxes say.
func TestTeamsStatusIsNotWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Aufgaben", map[string]any{"Name": of("title"), "Stand": of("status", "Offen", "Erledigt"), "Erledigt": of("checkbox")})
		_, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Erledigt": map[string]any{"checkbox": true}})
		if err != nil {
			w.Fatal(err)
		}
		p := w.plan()
		if slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return s.Action == setup.Complete }) || len(p.Offered) > 0 {
			w.Errorf("steps %v, %d offered: want the row left alone", p.Steps, len(p.Offered))
		}
	})
}
