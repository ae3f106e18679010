package emulator_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
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
		if diff := cmp.Diff([]string{"stays"}, a.query(from, object{})); diff != "" {
			t.Errorf("rows where they were (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"other", "moved"}, a.query(to, object{})); diff != "" {
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
		if diff := cmp.Diff([]string{wanted}, p.Relation("depends_on")); diff != "" {
			t.Errorf("relation (-want +got):\n%s", diff)
		}
		w, _ := a.e.Page(wanted)
		if from, to := w.Relation("wanted by"), w.Relation("wanted by 1"); len(from) != 0 || len(to) != 2 {
			t.Errorf("what points back: %v and %v, want nothing and both", from, to)
		}

		if err := a.e.MovePage(moved, from); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"stays", "moved"}, a.query(from, object{})); diff != "" {
			t.Errorf("rows, moved back (-want +got):\n%s", diff)
		}
		var rows []string
		for _, p := range a.e.Pages(from) {
			rows = append(rows, p.Title())
		}
		if diff := cmp.Diff([]string{"moved", "stays"}, rows); diff != "" {
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
	if diff := cmp.Diff([]string{"seen"}, a.query(dbs.Tasks, object{})); diff != "" {
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
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("shared again (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"seen", "hidden"}, a.query(dbs.Tasks, object{})); diff != "" {
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
