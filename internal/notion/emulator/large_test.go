package emulator_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"dibs/internal/notion/emulator"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestAddTasks(t *testing.T) {
	a, dbs := seeded(t, "empty")
	if err := a.e.AddTasks(45); err != nil {
		t.Fatal(err)
	}
	priorities, minutes := make(map[string]int), make(map[time.Time]int)
	open := 0
	for _, p := range a.e.Pages(dbs.Tasks) {
		priorities[p.Select("priority")]++
		minutes[p.Created]++
		if p.Select("status") == "OPEN" && p.Text("claimed_by") == "" && p.Created == p.Edited {
			open++
		}
	}
	if want := map[string]int{"critical": 12, "high": 11, "medium": 11, "low": 11}; open != 45 || len(minutes) != 3 || !gocmp.Equal(priorities, want) {
		t.Errorf("%d open tasks in %d minutes, of the priorities %v", open, len(minutes), priorities)
	}
	if err := start(t, emulator.Options{}).e.AddTasks(1); err == nil {
		t.Error("tasks were added to no database")
	}
}

// The pages of a query together are all rows in order, with any page size.
func TestPagesAreTheWholeInOrder(t *testing.T) {
	a, dbs := seeded(t, "empty")
	if err := a.e.AddTasks(90); err != nil {
		t.Fatal(err)
	}
	rows := a.e.Pages(dbs.Tasks)
	a.e.EditPage(rows[40].ID, object{"priority": object{"select": nil}})
	a.e.EditPage(rows[70].ID, object{"priority": object{"select": nil}})
	rows = a.e.Pages(dbs.Tasks)
	slices.Reverse(rows) // newest first, among equal rows
	levels := []string{"critical", "high", "medium", "low"}
	minute := func(t time.Time) int64 { return t.Truncate(time.Minute).Unix() }
	byCreation := func(a, b emulator.Page) int { return cmp.Compare(minute(a.Created), minute(b.Created)) }
	byEdit := func(a, b emulator.Page) int { return cmp.Compare(minute(a.Edited), minute(b.Edited)) }
	byPriority := func(a, b emulator.Page, sign int) int {
		x, y := slices.Index(levels, a.Select("priority")), slices.Index(levels, b.Select("priority"))
		if x < 0 || y < 0 {
			return cmp.Compare(y, x) // empty values last in both directions
		}
		return sign * cmp.Compare(x, y)
	}
	sort := func(by, name, direction string) object { return object{by: name, "direction": direction} }
	for _, c := range []struct {
		name  string
		sorts list
		order func(a, b emulator.Page) int
	}{
		{"none", nil, func(a, b emulator.Page) int { return 0 }},
		{"creation", list{sort("timestamp", "created_time", "ascending")}, byCreation},
		{"creation, backward", list{sort("timestamp", "created_time", "descending")}, func(a, b emulator.Page) int { return byCreation(b, a) }},
		{"edit, then priority", list{sort("timestamp", "last_edited_time", "ascending"), sort("property", "priority", "descending")},
			func(a, b emulator.Page) int { return cmp.Or(byEdit(a, b), byPriority(a, b, -1)) }},
		{"priority", list{sort("property", "priority", "ascending")}, func(a, b emulator.Page) int { return byPriority(a, b, 1) }},
		{"priority, backward, then creation", list{sort("property", "priority", "descending"), sort("timestamp", "created_time", "ascending")},
			func(a, b emulator.Page) int { return cmp.Or(byPriority(a, b, -1), byCreation(a, b)) }},
	} {
		whole := slices.Clone(rows)
		slices.SortStableFunc(whole, c.order)
		var want []string
		for _, p := range whole {
			want = append(want, p.Title())
		}
		for _, size := range []int{1, 7, 89, 90, 100} {
			body := object{"page_size": size}
			if c.sorts != nil {
				body["sorts"] = c.sorts
			}
			if diff := gocmp.Diff(want, a.all(dbs.Tasks, body, nil)); diff != "" {
				t.Errorf("sorted by %s, %d a page (-want +got):\n%s", c.name, size, diff)
			}
		}
	}
}
