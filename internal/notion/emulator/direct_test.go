package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestMovePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		properties := object{
			"Name": object{"title": object{}}, "claimed_by": object{"rich_text": object{}}, "status": object{"select": object{}},
			"priority":   object{"select": object{"options": list{object{"name": "high"}}}},
			"depends_on": object{"relation": object{"database_id": dbs.Tasks, "dual_property": object{"synced_property_name": "wanted by"}}},
			"self":       object{"relation": object{"database_id": dbs.Tasks, "single_property": object{}}},
		}
		from := need(a.e.CreateDatabase("From", properties))(t)
		properties["status"] = object{"status": object{"options": list{object{"name": "NEW"}, object{"name": "OPEN"}}}}
		to := need(a.e.CreateDatabase("To", properties))(t)
		must(t, a.e.EditSchema(to, object{"self": nil}))
		must(t, a.e.EditSchema(to, object{"self": object{"relation": object{"database_id": to, "single_property": object{}}}}))
		wanted := a.row(dbs.Tasks, object{"Name": title("wanted")})
		row := func(name, priority string) string {
			refs := object{"relation": list{object{"id": wanted}}}
			return a.row(from, object{
				"Name": title(name), "claimed_by": text("Sandman"), "priority": object{"select": object{"name": priority}},
				"status": object{"select": object{"name": "OPEN"}}, "depends_on": refs, "self": refs,
			})
		}
		moved, other := row("moved", "high"), row("other", "low")
		a.names["from"], a.names["to"], a.names["moved"] = from, to, moved
		a.row(from, object{"Name": title("stays")})
		time.Sleep(time.Hour)
		must(t, a.e.MovePage(moved, to))
		must(t, a.e.MovePage(other, to))
		a.play(`
POST databases/$from/query {} | titles = ["stays"]
POST databases/$to/query {} | titles = ["other","moved"]
GET pages/$moved | parent.database_id = "$to" | last_edited_time = "2000-01-01T01:00:00.000Z"`)
		// What has a property of the same name and type, with that option, or related to the same place, stays.
		p := a.page(moved)
		if p.Database != to || p.Text("claimed_by") != "Sandman" || p.Select("priority") != "high" || p.Select("status") != "NEW" || len(p.Relation("self")) != 0 {
			t.Errorf("of the same name and type: %q, %q; of another: %v, %v", p.Text("claimed_by"), p.Select("priority"), p.Value("status"), p.Relation("self"))
		}
		if p = a.page(other); p.Value("priority") != nil {
			t.Errorf("an option that is not there: %v", p.Value("priority"))
		}
		same(t, []string{wanted}, p.Relation("depends_on"), "relation")
		w := a.page(wanted)
		if from, to := w.Relation("wanted by"), w.Relation("wanted by 1"); len(from) != 0 || len(to) != 2 {
			t.Errorf("what points back: %v and %v, want nothing and both", from, to)
		}
		must(t, a.e.MovePage(moved, from))
		a.play(`POST databases/$from/query {} | titles = ["stays","moved"]`)
		var rows []string
		for _, p := range a.e.Pages(from) {
			rows = append(rows, p.Title())
		}
		same(t, []string{"moved", "stays"}, rows, "in the order of their creation")
	})
}

func TestUnsharedPagesAreNotThere(t *testing.T) {
	a, dbs := seeded(t, "empty")
	hidden := a.row(dbs.Tasks, object{"Name": title("hidden")})
	a.names["hidden"] = hidden
	a.row(dbs.Tasks, object{"Name": title("seen")})
	before := a.ok("GET", pathPages+"/"+hidden, nil)
	must(t, a.e.UnsharePage(hidden))
	a.play(`
GET pages/$hidden | 404
PATCH pages/$hidden {} | 404
GET blocks/$hidden/children | 404
POST databases/$tasks/query {} | titles = ["seen"]
POST search {"query":"hidden"} | results = []`)
	must(t, a.e.SharePage(hidden))
	after := a.ok("GET", pathPages+"/"+hidden, nil)
	delete(before, "request_id")
	delete(after, "request_id")
	same(t, before, after, "shared again")
	a.play(`
POST databases/$tasks/query {} | titles = ["seen","hidden"]
POST pages {"parent":{"workspace":true},"properties":{"title":[]}} | $home = id
POST pages {"parent":{"page_id":"$home"},"properties":{"title":[]}} | $child = id
GET blocks/$home/children | #results = 1`)
	must(t, a.e.UnsharePage(a.names["child"]))
	a.play(`GET blocks/$home/children | #results = 0`)
	if err := a.e.MovePage(a.names["child"], dbs.Tasks); err == nil {
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
		a.names[name] = a.row(dbs.Tasks, object{"Name": title(name), "depends_on": object{"relation": refs}})
		return a.names[name]
	}
	add("third", add("second", add("first")))
	a.play(`PATCH blocks/$second/children {"children":[{"paragraph":{"rich_text":[]}}]} | $block = results.0.id`)
	must(t, a.e.EmptyTrash())
	a.play(`POST databases/$tasks/query {} | titles = ["third","second","first"]`)
	must(t, a.e.TrashPage(a.names["second"]))
	a.play(`GET pages/$second | in_trash = true`)
	must(t, a.e.EmptyTrash())
	a.play(`
GET pages/$second | 404
GET blocks/$block | 404
POST databases/$tasks/query {} | titles = ["third","first"]
GET pages/$third | properties.depends_on.relation = []`)
	if _, ok := a.e.Page(a.names["second"]); ok {
		t.Error("the page is still there")
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
	p := a.page(id)
	for name, want := range map[string]string{
		"Name": "Row", "Text": "ab", "Select": "red", "Status": "OPEN", "Multi": "a, b", "People": "Maria, Jonas",
		"URL": "https://example.com", "Email": "", "Number": "", "Nothing": "",
	} {
		same(t, want, p.Text(name), "%s", name)
	}
	got := list{p.Select("Select"), p.Select("Text"), p.Date("Date"), p.Date("Made"), p.Number("Number"), p.Number("ID"), p.Number("Text"), p.Value("Check"), p.Value("Nothing")}
	same(t, list{"red", "", "2026-01-02", "", 7.0, 1.0, 0.0, true, nil}, got, "values")
	same(t, []string{task}, p.Relation("Relation"), "Relation")

	// A snapshot does not change later.
	must(t, a.e.EditPage(id, object{"Number": object{"number": nil}}))
	if later := a.page(id); p.Number("Number") != 7 || later.Value("Number") != nil {
		t.Errorf("the copy says %v, the page %v", p.Number("Number"), later.Value("Number"))
	}
}
