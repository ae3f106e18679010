package emulator_test

import (
	"cmp"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestMovePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		properties := object{
			"Name": object{"title": object{}}, "claimed_by": object{"rich_text": object{}},
			"priority":   object{"select": object{"options": list{object{"name": "high"}}}},
			"status":     object{"select": object{}},
			"depends_on": object{"relation": object{"database_id": dbs.Tasks, "dual_property": object{"synced_property_name": "wanted by"}}},
		}
		from, err := a.e.CreateDatabase("From", properties)
		if err != nil {
			t.Fatal(err)
		}
		properties["status"] = object{"status": object{"options": list{object{"name": "NEW"}, object{"name": "OPEN"}}}}
		to, err := a.e.CreateDatabase("To", properties)
		if err != nil {
			t.Fatal(err)
		}
		wanted := a.row(dbs.Tasks, object{"Name": title("wanted")})
		row := func(name, priority string) string {
			return a.row(from, object{
				"Name": title(name), "claimed_by": object{"rich_text": list{object{"text": object{"content": "Sandman"}}}},
				"priority": object{"select": object{"name": priority}}, "status": object{"select": object{"name": "OPEN"}},
				"depends_on": object{"relation": list{object{"id": wanted}}},
			})
		}
		moved, other := row("moved", "high"), row("other", "low")
		a.row(from, object{"Name": title("stays")})
		time.Sleep(time.Hour)
		for _, id := range []string{moved, other} {
			if err := a.e.MovePage(id, to); err != nil {
				t.Fatal(err)
			}
		}
		if diff := gocmp.Diff([]string{"stays"}, a.query(from, object{})); diff != "" {
			t.Errorf("rows where they were (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff([]string{"other", "moved"}, a.query(to, object{})); diff != "" {
			t.Errorf("rows where they are (-want +got):\n%s", diff)
		}
		got := a.ok("GET", pathPages+"/"+moved, nil)
		if at(got, "parent", "database_id") != to || at(got, "last_edited_time") != "2000-01-01T01:00:00.000Z" {
			t.Errorf("the page is in %v, edited %v", got["parent"], got["last_edited_time"])
		}
		p, _ := a.e.Page(moved)
		if p.Database != to || p.Text("claimed_by") != "Sandman" || p.Select("priority") != "high" || p.Select("status") != "NEW" {
			t.Errorf("of the same name and type: %q, %q; of another: %v", p.Text("claimed_by"), p.Select("priority"), p.Value("status"))
		}
		if p, _ = a.e.Page(other); p.Value("priority") != nil {
			t.Errorf("an option that is not there: %v", p.Value("priority"))
		}
		if diff := gocmp.Diff([]string{wanted}, p.Relation("depends_on")); diff != "" {
			t.Errorf("relation (-want +got):\n%s", diff)
		}
		w, _ := a.e.Page(wanted)
		if from, to := w.Relation("wanted by"), w.Relation("wanted by 1"); len(from) != 0 || len(to) != 2 {
			t.Errorf("what points back: %v and %v, want nothing and both", from, to)
		}

		if err := a.e.MovePage(moved, from); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]string{"stays", "moved"}, a.query(from, object{})); diff != "" {
			t.Errorf("rows, moved back (-want +got):\n%s", diff)
		}
		var rows []string
		for _, p := range a.e.Pages(from) {
			rows = append(rows, p.Title())
		}
		if diff := gocmp.Diff([]string{"moved", "stays"}, rows); diff != "" {
			t.Errorf("in the order of their creation (-want +got):\n%s", diff)
		}
		for _, ids := range [][2]string{{nobody, to}, {moved, nobody}} {
			if err := a.e.MovePage(ids[0], ids[1]); err == nil {
				t.Errorf("moved %s to %s", ids[0], ids[1])
			}
		}
	})
}

func TestRelationsToWhereAPageWas(t *testing.T) {
	a, dbs := seeded(t, "empty")
	to, err := a.e.CreateDatabase("To", object{"Name": object{"title": object{}}})
	if err != nil {
		t.Fatal(err)
	}
	first := a.row(dbs.Tasks, object{"Name": title("first")})
	second := a.row(dbs.Tasks, object{"Name": title("second"), "depends_on": object{"relation": list{object{"id": first}}}})
	if err := a.e.EditSchema(to, object{"depends_on": object{"relation": object{"database_id": to, "single_property": object{}}}}); err != nil {
		t.Fatal(err)
	}
	if err := a.e.MovePage(second, to); err != nil {
		t.Fatal(err)
	}
	if p, _ := a.e.Page(second); len(p.Relation("depends_on")) != 0 {
		t.Errorf("a relation to another data source: %v", p.Relation("depends_on"))
	}
}

func TestUnsharedPagesAreNotThere(t *testing.T) {
	a, dbs := seeded(t, "empty")
	hidden := a.row(dbs.Tasks, object{"Name": title("hidden")})
	a.row(dbs.Tasks, object{"Name": title("seen")})
	before := a.ok("GET", pathPages+"/"+hidden, nil)
	if err := a.e.UnsharePage(hidden); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", pathPages + "/" + hidden, nil},
		{"PATCH", pathPages + "/" + hidden, object{}},
		{"GET", "/v1/blocks/" + hidden + "/children", nil},
	} {
		a.refused(c.method, c.path, c.body, http.StatusNotFound, "object_not_found", "")
	}
	if diff := gocmp.Diff([]string{"seen"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for _, hit := range a.ok("POST", "/v1/search", object{})["results"].(list) {
		if at(hit, "id") == hidden {
			t.Errorf("the search finds %v", hit)
		}
	}
	if err := a.e.SharePage(hidden); err != nil {
		t.Fatal(err)
	}
	after := a.ok("GET", pathPages+"/"+hidden, nil)
	delete(before, "request_id")
	delete(after, "request_id")
	if diff := gocmp.Diff(before, after); diff != "" {
		t.Errorf("shared again (-before +after):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"seen", "hidden"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := a.e.UnsharePage(nobody); err == nil {
		t.Error("a page that does not exist was unshared")
	}
}

func TestUnsharedChildrenAreNotListed(t *testing.T) {
	a := start(t, emulator.Options{})
	home := a.ok("POST", pathPages, object{"parent": object{"workspace": true}, "properties": object{"title": title("Home")}})["id"].(string)
	child := a.ok("POST", pathPages, object{"parent": object{"page_id": home}, "properties": object{"title": title("Child")}})["id"].(string)
	listed := func() int { return len(a.ok("GET", "/v1/blocks/"+home+"/children", nil)["results"].(list)) }
	if n := listed(); n != 1 {
		t.Fatalf("%d children, want one", n)
	}
	if err := a.e.UnsharePage(child); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 0 {
		t.Errorf("%d children, want none", n)
	}
	if err := a.e.MovePage(child, home); err == nil {
		t.Error("moved a page that is no row")
	}
}

func TestEmptyTrash(t *testing.T) {
	a, dbs := seeded(t, "empty")
	add := func(name string, on ...string) string {
		refs := list{}
		for _, id := range on {
			refs = append(refs, object{"id": id})
		}
		return a.row(dbs.Tasks, object{"Name": title(name), "depends_on": object{"relation": refs}})
	}
	first := add("first")
	second := add("second", first)
	third := add("third", second)
	children := a.ok("PATCH", "/v1/blocks/"+second+"/children", object{"children": list{paragraph("text")}})
	block := at(children, "results", 0, "id").(string)
	if err := a.e.EmptyTrash(); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"third", "second", "first"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Fatalf("with nothing in the trash (-want +got):\n%s", diff)
	}
	if err := a.e.TrashPage(second); err != nil {
		t.Fatal(err)
	}
	a.ok("GET", pathPages+"/"+second, nil)
	if err := a.e.EmptyTrash(); err != nil {
		t.Fatal(err)
	}
	a.refused("GET", pathPages+"/"+second, nil, 404, "object_not_found", "")
	a.refused("GET", "/v1/blocks/"+block, nil, 404, "object_not_found", "")
	if _, ok := a.e.Page(second); ok {
		t.Error("the page is still there")
	}
	if diff := gocmp.Diff([]string{"third", "first"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := at(a.ok("GET", pathPages+"/"+third, nil), "properties", "depends_on", "relation"); len(got.(list)) != 0 {
		t.Errorf("third depends on %v, want nothing", got)
	}
}

func TestPagesAreReadAsPeopleReadThem(t *testing.T) {
	a, db, dbs := full(t)
	users := a.ok("GET", "/v1/users", nil)
	task := a.e.Pages(dbs.Tasks)[0].ID
	id := a.row(db, object{
		"Name": title("Row"), "Text": object{"rich_text": list{object{"text": object{"content": "a"}}, object{"text": object{"content": "b"}}}},
		"Number": object{"number": 7}, "Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}, object{"name": "b"}}},
		"People": object{"people": list{object{"id": at(users, "results", 1, "id")}, object{"id": at(users, "results", 2, "id")}}},
		"URL":    object{"url": "https://example.com"}, "Date": object{"date": object{"start": "2026-01-02"}}, "Check": object{"checkbox": true},
		"Relation": object{"relation": list{object{"id": task}}},
	})
	p, ok := a.e.Page(id)
	if !ok {
		t.Fatal("no page")
	}
	text := map[string]string{}
	for _, name := range []string{"Name", "Text", "Select", "Status", "Multi", "People", "URL", "Email", "Number", "Nothing"} {
		text[name] = p.Text(name)
	}
	want := map[string]string{
		"Name": "Row", "Text": "ab", "Select": "red", "Status": "OPEN", "Multi": "a, b", "People": "Maria, Jonas",
		"URL": "https://example.com", "Email": "", "Number": "", "Nothing": "",
	}
	if diff := gocmp.Diff(want, text); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if p.Select("Select") != "red" || p.Select("Text") != "" || p.Date("Date") != "2026-01-02" || p.Date("Made") != "" {
		t.Errorf("Select %q, Date %q", p.Select("Select"), p.Date("Date"))
	}
	if p.Number("Number") != 7 || p.Number("ID") != 1 || p.Number("Text") != 0 {
		t.Errorf("Number %v, ID %v", p.Number("Number"), p.Number("ID"))
	}
	if p.Value("Check") != true || p.Value("Nothing") != nil {
		t.Errorf("Check %v", p.Value("Check"))
	}
	if diff := gocmp.Diff([]string{task}, p.Relation("Relation")); diff != "" {
		t.Errorf("Relation (-want +got):\n%s", diff)
	}

	// A snapshot does not change later.
	if err := a.e.EditPage(id, object{"Number": object{"number": nil}}); err != nil {
		t.Fatal(err)
	}
	if later, _ := a.e.Page(id); p.Number("Number") != 7 || later.Value("Number") != nil {
		t.Errorf("the copy says %v, the page %v", p.Number("Number"), later.Value("Number"))
	}
}

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
