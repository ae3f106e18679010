package notion_test

import (
	"slices"

	"dibs/internal/notion"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// setupScenes are what only dibs init and dibs doctor ask of Notion.
var setupScenes = []scene{
	{
		name: "init",
		set:  func(s *stage) { s.task(props{"Name": title("A page for databases"), "status": status("CANCELLED")}) },
		play: func(s *stage) {
			ctx, page := s.Context(), s.only()
			if below, err := s.client.Below(ctx, page); err != nil || len(below) != 0 {
				s.Errorf("Below = %v, %v; want nothing", below, err)
			}
			made, err := s.client.CreateDatabase(ctx, page, "Tasks",
				notion.NewColumn{Name: "Name", Type: "title"},
				notion.NewColumn{Name: "level", Type: "select", Options: []string{"high", "low"}},
				notion.NewColumn{Name: "claimed_by", Type: "rich_text"},
				notion.NewColumn{Name: "claimed_at", Type: "date"})
			if err != nil {
				s.Fatal(err)
			}
			below, err := s.client.Below(ctx, page)
			if diff := cmp.Diff(map[task.ID]string{made.ID: "Tasks"}, below); err != nil || diff != "" {
				s.Errorf("Below: %v (-want +got):\n%s", err, diff)
			}
			added, err := s.client.AddColumns(ctx, made.ID,
				notion.NewColumn{Name: "claimed_by", Type: "rich_text"},
				notion.NewColumn{Name: "claim_timeout_minutes", Type: "number"},
				notion.NewColumn{Name: "depends_on", Type: "relation"})
			if err != nil {
				s.Fatal(err)
			}
			for name, kind := range map[string]string{
				"Name": "title", "level": "select", "claimed_by": "rich_text", "claimed_at": "date",
				"claim_timeout_minutes": "number", "depends_on": "relation",
			} {
				if got := added.Columns[name].Type; got != kind {
					s.Errorf("property %q is of type %q, want %q", name, got, kind)
				}
			}
			grown, err := s.client.Extend(ctx, made.ID, notion.NewColumn{Name: "level", Options: []string{"low", "critical"}})
			if err != nil {
				s.Fatal(err)
			}
			if diff := cmp.Diff([]string{"critical", "high", "low"}, slices.Sorted(slices.Values(grown.Columns["level"].Options))); diff != "" {
				s.Errorf("options (-want +got):\n%s", diff)
			}
		},
	},
	{
		name: "probe",
		play: func(s *stage) {
			measured, err := s.opened().Probe(s.Context(), "dibs probe, can be deleted", 2)
			if err != nil || len(measured.Rounds) != 2 {
				s.Errorf("Probe = %+v, %v; want two rounds", measured, err)
			}
		},
	},
}
