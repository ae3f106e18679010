package emulator_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	pathPages     = "/v1/pages"
	errTrashed    = "Can't edit block that is archived. You must unarchive the block before editing."
	badRequest    = http.StatusBadRequest
	validation    = "validation_error"
	errNoProperty = "Colour is not a property that exists."
)

func TestPageShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		source := at(a.as("2025-09-03").ok("GET", "/v1/databases/"+dbs.Tasks, nil), "data_sources", 0, "id")
		time.Sleep(42*time.Second + 123*time.Millisecond)
		id := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "properties": object{"Name": title("Fix it, now!")}})["id"].(string)
		want := object{
			"object": "page", "id": id,
			"created_time": "2000-01-01T00:00:00.000Z", "last_edited_time": "2000-01-01T00:00:00.000Z",
			"cover": nil, "icon": nil, "in_trash": false, "is_archived": false, "is_locked": false, "public_url": nil,
			"url": "https://www.notion.so/Fix-it-now-" + undashed(id),
		}
		for version, more := range map[string]object{
			"2022-06-28": {"archived": false, "parent": object{"type": "database_id", "database_id": dbs.Tasks}},
			"2025-09-03": {"archived": false, "parent": object{"type": "data_source_id", "data_source_id": source, "database_id": dbs.Tasks}},
			"2026-03-11": {"parent": object{"type": "data_source_id", "data_source_id": source, "database_id": dbs.Tasks}},
		} {
			got := a.as(version).ok("GET", pathPages+"/"+id, nil)
			for _, key := range []string{"properties", "request_id", "created_by", "last_edited_by"} {
				if got[key] == nil {
					t.Errorf("%s: no %s", version, key)
				}
				delete(got, key)
			}
			all := object{}
			for _, m := range []object{want, more} {
				for k, v := range m {
					all[k] = v
				}
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", version, diff)
			}
		}
	})
}

func undashed(id string) string {
	return id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:]
}

func TestPatchIsPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, object{"Name": title("Job"), "claimed_by": text("Sandman"), "Notes": text("old")})
		time.Sleep(2 * time.Minute)
		notes := at(a.ok("GET", pathPages+"/"+id, nil), "properties", "Notes", "id").(string)
		got := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{notes: text("new")}})
		if at(got, "properties", "claimed_by", "rich_text", 0, "plain_text") != "Sandman" || at(got, "properties", "Notes", "rich_text", 0, "plain_text") != "new" {
			t.Errorf("properties are %v", got["properties"])
		}
		if got["created_time"] != "2000-01-01T00:00:00.000Z" || got["last_edited_time"] != "2000-01-01T00:02:00.000Z" {
			t.Errorf("created %v, edited %v", got["created_time"], got["last_edited_time"])
		}
	})
}

func TestUniqueIDsCountUp(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for n := 1; n <= 3; n++ {
		got := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}})
		want := object{"prefix": "TASK", "number": float64(n)}
		if diff := cmp.Diff(want, at(got, "properties", "ID", "unique_id")); diff != "" {
			t.Errorf("unique id (-want +got):\n%s", diff)
		}
		if at(got, "properties", "status", "status", "name") != "OPEN" {
			t.Errorf("a new task is %v", at(got, "properties", "status", "status", "name"))
		}
	}
}

func TestTrash(t *testing.T) {
	for _, c := range []struct {
		name, version string
		trashed       bool // before
		body          object
		refused       string
		after         bool
	}{
		{"archived: true trashes", "2022-06-28", false, object{"archived": true}, "", true},
		{"in_trash: true trashes", "2022-06-28", false, object{"in_trash": true}, "", true},
		{"in_trash: true trashes, new version", "2026-03-11", false, object{"in_trash": true}, "", true},
		{"archived: false leaves a live page alone", "2022-06-28", false, object{"archived": false}, "", false},
		{"archived: false restores", "2022-06-28", true, object{"archived": false}, "", false},
		{"in_trash: false restores", "2026-03-11", true, object{"in_trash": false}, "", false},
		{"an edit of a trashed page", "2022-06-28", true, object{"properties": object{"Notes": text("x")}}, errTrashed, true},
		{"trashing twice", "2022-06-28", true, object{"archived": true}, errTrashed, true},
		{"archived in the new version", "2026-03-11", false, object{"archived": true},
			"body failed validation: body.archived should be not present, instead was `true`.", false},
		{"archived: false in the new version", "2026-03-11", true, object{"archived": false},
			"body failed validation: body.archived should be not present, instead was `false`.", true},
		{"no boolean", "2022-06-28", false, object{"archived": "yes"}, "body failed validation: body.archived should be a boolean or `undefined`, instead was `\"yes\"`.", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, dbs := seeded(t, "empty")
			id := a.row(dbs.Tasks, object{"Name": title("Job")})
			if c.trashed {
				if err := a.e.TrashPage(id); err != nil {
					t.Fatal(err)
				}
			}
			if c.refused != "" {
				a.as(c.version).refused("PATCH", pathPages+"/"+id, c.body, badRequest, validation, c.refused)
			} else {
				got := a.as(c.version).ok("PATCH", pathPages+"/"+id, c.body)
				if got["in_trash"] != c.after {
					t.Errorf("in_trash = %v, want %v", got["in_trash"], c.after)
				}
			}
			if p, _ := a.e.Page(id); p.Trashed != c.after {
				t.Errorf("trashed = %v, want %v", p.Trashed, c.after)
			}
		})
	}
}

func TestArchivedIsAThirdState(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Job")})
	if err := a.e.ArchivePage(id, true); err != nil {
		t.Fatal(err)
	}
	got := a.ok("GET", pathPages+"/"+id, nil)
	if got["is_archived"] != true || got["in_trash"] != false || got["archived"] != false {
		t.Errorf("is_archived %v, in_trash %v, archived %v", got["is_archived"], got["in_trash"], got["archived"])
	}
	if rows := a.query(dbs.Tasks, object{}); len(rows) != 0 {
		t.Errorf("a query gives %v", rows)
	}
	if err := a.e.ArchivePage(id, false); err != nil {
		t.Fatal(err)
	}
	if rows := a.query(dbs.Tasks, object{}); len(rows) != 1 {
		t.Errorf("a query gives %v after the page was unarchived", rows)
	}
}

func TestPageRefusals(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, object{"Name": title("Row")})
	parent := object{"database_id": db}
	for _, c := range []struct {
		name         string
		method, path string
		body         any
		message      string
	}{
		{"no body", "PATCH", pathPages + "/" + id, nil, "body failed validation: body should be defined, instead was `undefined`."},
		{"unknown member", "PATCH", pathPages + "/" + id, object{"colour": 1}, "body failed validation: body.colour should be not present, instead was `1`."},
		{"no parent", "POST", pathPages, object{}, "body failed validation: body.parent should be defined, instead was `undefined`."},
		{"parent without an id", "POST", pathPages, object{"parent": object{}}, "body failed validation: body.parent.page_id should be defined, instead was `undefined`."},
		{"parent with a bad id", "POST", pathPages, object{"parent": object{"database_id": "x"}},
			"body failed validation: body.parent.database_id should be a valid uuid, instead was `\"x\"`."},
		{"properties of the wrong type", "POST", pathPages, object{"parent": parent, "properties": list{}},
			"body failed validation: body.properties should be an object or `undefined`, instead was `[]`."},
		{"unknown property", "POST", pathPages, object{"parent": parent, "properties": object{"Colour": text("red")}}, errNoProperty},
		{"unknown property, patched", "PATCH", pathPages + "/" + id, object{"properties": object{"Colour": text("red")}}, errNoProperty},
		{"all that is wrong at once", "PATCH", pathPages + "/" + id, object{"properties": object{"Colour": text("red"), "Select": text("x")}},
			"Colour is not a property that exists. Select is expected to be select."},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.in(t).refused(c.method, c.path, c.body, badRequest, validation, c.message)
		})
	}
}

func TestPagesBelowPages(t *testing.T) {
	a, _ := seeded(t, "empty")
	home := at(a.ok("POST", "/v1/search", object{"query": "Home"}), "results", 0, "id").(string)
	got := a.ok("POST", pathPages, object{"parent": object{"page_id": home}, "properties": object{"title": list{object{"text": object{"content": "Notes"}}}}})
	if at(got, "parent", "page_id") != home || at(got, "properties", "title", "title", 0, "plain_text") != "Notes" {
		t.Errorf("created %v", got)
	}
	a.refused("PATCH", pathPages+"/"+got["id"].(string), object{"properties": object{"Colour": text("x")}}, badRequest, validation, errNoProperty)
}

func TestPropertyItems(t *testing.T) {
	a, db, dbs := full(t)
	var related list
	for _, p := range a.e.Pages(dbs.Tasks) {
		related = append(related, object{"id": p.ID})
	}
	for range 10 {
		related = append(related, object{"id": a.row(dbs.Tasks, nil)})
	}
	id := a.row(db, object{
		"Name": title("Row"), "Number": object{"number": 4}, "Relation": object{"relation": related},
		"Text": object{"rich_text": list{object{"text": object{"content": "a"}}, object{"text": object{"content": "b"}}}},
	})
	page := a.ok("GET", pathPages+"/"+id, nil)
	item := func(name, query string) object {
		return a.ok("GET", pathPages+"/"+id+"/properties/"+at(page, "properties", name, "id").(string)+query, nil)
	}

	// A page shows 25 related pages, and has_more.
	if shown := at(page, "properties", "Relation", "relation").(list); len(shown) != 25 || at(page, "properties", "Relation", "has_more") != true {
		t.Errorf("the page shows %d related pages, has_more %v", len(shown), at(page, "properties", "Relation", "has_more"))
	}
	var got list
	next := item("Relation", "?page_size=20")
	if next["has_more"] != true || at(next, "property_item", "next_url") == nil {
		t.Errorf("the first page of the relation is the last: %v", next)
	}
	for {
		for _, r := range next["results"].(list) {
			if at(r, "object") != "property_item" || at(r, "type") != "relation" {
				t.Errorf("an item is %v", r)
			}
			got = append(got, at(r, "relation"))
		}
		if next["has_more"] != true {
			break
		}
		next = item("Relation", "?page_size=20&start_cursor="+next["next_cursor"].(string))
	}
	if diff := cmp.Diff(related, got); diff != "" {
		t.Errorf("related pages (-want +got):\n%s", diff)
	}

	// A snapshot has them all; trashed pages are in neither.
	if err := a.e.TrashPage(at(related, 0, "id").(string)); err != nil {
		t.Fatal(err)
	}
	if p, _ := a.e.Page(id); len(p.Relation("Relation")) != 29 || p.Relation("Relation")[0] != at(related, 1, "id") {
		t.Errorf("a copy of the page has %d related pages, want 29", len(p.Relation("Relation")))
	}

	if n := item("Number", ""); n["object"] != "property_item" || n["type"] != "number" || n["number"] != 4.0 {
		t.Errorf("Number is %v", n)
	}
	if l := item("Text", ""); l["object"] != "list" || l["type"] != "property_item" || at(l, "results", 1, "rich_text", "plain_text") != "b" {
		t.Errorf("Text is %v", l)
	}
	if l := item("Name", ""); at(l, "results", 0, "title", "plain_text") != "Row" {
		t.Errorf("Name is %v", l)
	}
	a.refused("GET", pathPages+"/"+id+"/properties/nope", nil, http.StatusNotFound, "object_not_found", "")
}

func TestBlockLimit(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, nil)
	if err := a.e.SetBlockLimit(3); err != nil {
		t.Fatal(err)
	}
	create := object{"parent": object{"database_id": dbs.Tasks}}
	paragraph := object{"paragraph": text("x")}
	a.ok("POST", pathPages, create)
	full := a.refused("POST", pathPages, object{"parent": create["parent"], "children": list{paragraph, paragraph}}, http.StatusForbidden, "restricted_resource", "")
	if at(full.body, "additional_data", "block_limit") != "block_creation" {
		t.Errorf("additional data is %v", full.body["additional_data"])
	}
	a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph, paragraph}})
	a.refused("POST", pathPages, create, http.StatusForbidden, "restricted_resource", "")
	a.refused("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph}}, http.StatusForbidden, "restricted_resource", "")
	a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"Notes": text("still works")}})
	a.row(dbs.Tasks, nil) // no limit outside of the API
	if err := a.e.SetBlockLimit(-1); err != nil {
		t.Fatal(err)
	}
	a.ok("POST", pathPages, create)
	if n := len(a.e.Pages(dbs.Tasks)); n != 4 {
		t.Errorf("%d pages, want 4", n)
	}
}

func TestDirectAccessIsSeenAtOnce(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Job")})
	if err := a.e.EditPage(id, object{"claimed_by": text("Maria")}); err != nil {
		t.Fatal(err)
	}
	if got := at(a.ok("GET", pathPages+"/"+id, nil), "properties", "claimed_by", "rich_text", 0, "plain_text"); got != "Maria" {
		t.Errorf("claimed_by = %v", got)
	}
	if err := a.e.TrashPage(id); err != nil {
		t.Fatal(err)
	}
	if err := a.e.EditPage(id, object{"claimed_by": text("Jonas")}); err != nil {
		t.Errorf("editing a trashed page past the API: %v", err)
	}
	if err := a.e.RestorePage(id); err != nil {
		t.Fatal(err)
	}
	p, ok := a.e.Page(id)
	if !ok || p.Trashed || p.Text("claimed_by") != "Jonas" || p.Database != dbs.Tasks || p.Title() != "Job" {
		t.Errorf("page is %+v", p)
	}
	if n := len(a.e.Requests()); n != 1 {
		t.Errorf("%d requests logged, want only the GET", n)
	}
	for name, err := range map[string]error{
		"unknown page":     a.e.EditPage(nobody, nil),
		"unknown property": a.e.EditPage(id, object{"Colour": text("x")}),
		"trash":            a.e.TrashPage("x"),
		"schema":           a.e.EditSchema(nobody, nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, ok := a.e.Page(nobody); ok {
		t.Error("a page that does not exist was found")
	}
	if got := a.e.Pages(nobody); got != nil {
		t.Errorf("pages of no database: %v", got)
	}
}
