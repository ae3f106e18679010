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
		time.Sleep(time.Minute) // Notion's times are whole minutes
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
			id, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Erledigt": map[string]any{"checkbox": true}})
			if err != nil {
				w.Fatal(err)
			}
			rows = append(rows, id)
			time.Sleep(time.Minute) // listed in this order
		}
		edit := func(id string, to map[string]any) {
			if err := w.notion.EditPage(id, to); err != nil {
				w.Error(err)
			}
		}
		remove := w.notion.Inject(emulator.Fault{Method: "PATCH", Path: "/v1/pages/*", Kind: emulator.Forbidden403, Skip: 1})
		if err := w.plan().Apply(w.Context(), func(setup.Step) {}); err == nil {
			w.Fatal("the plan was carried out although Notion refused a part")
		}
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
			_, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{"Fertig": map[string]any{"checkbox": true}})
			if err != nil {
				w.Fatal(err)
			}
			p := w.plan()
			if slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return s.Action == setup.Complete }) || len(p.Offered) > 0 {
				w.Errorf("%s: steps %v, %d offered: want the row left alone", name, p.Steps, len(p.Offered))
			}
		})
	}
}
