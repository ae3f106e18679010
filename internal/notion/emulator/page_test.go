package emulator_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"
)

const (
	nobody        = "00000000-0000-0000-0000-000000000000"
	pathPages     = "/v1/pages"
	errTrashed    = "Can't edit block that is archived. You must unarchive the block before editing."
	badRequest    = http.StatusBadRequest
	validation    = "validation_error"
	errNoProperty = "Colour is not a property that exists."
)

func undashed(id string) string { return strings.ReplaceAll(id, "-", "") }

func TestPageShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		time.Sleep(42*time.Second + 123*time.Millisecond)
		a.play(`POST pages {"parent":{"database_id":"$tasks"},"properties":{"Name":{"title":[{"text":{"content":"Fix it, now!"}}]}}} | $id = id`)
		id := a.names["id"]
		for _, version := range versions {
			want := object{
				"object": "page", "id": id, "created_time": "2000-01-01T00:00:00.000Z", "last_edited_time": "2000-01-01T00:00:00.000Z",
				"cover": nil, "icon": nil, "in_trash": false, "archived": false, "is_archived": false, "is_locked": false, "public_url": nil,
				"url":    "https://www.notion.so/Fix-it-now-" + undashed(id),
				"parent": object{"type": "data_source_id", "data_source_id": a.names["source"], "database_id": dbs.Tasks},
			}
			switch version {
			case "2022-06-28":
				want["parent"] = object{"type": "database_id", "database_id": dbs.Tasks}
			case "2026-03-11":
				delete(want, "archived")
			}
			got := a.as(version).ok("GET", pathPages+"/"+id, nil)
			for _, key := range []string{"properties", "request_id", "created_by", "last_edited_by"} {
				if got[key] == nil {
					t.Errorf("%s: no %s", version, key)
				}
				delete(got, key)
			}
			same(t, want, got, "%s", version)
		}
		time.Sleep(2 * time.Minute)
		a.play(`
GET pages/$id | $notes = properties.Notes.id
PATCH pages/$id {"properties":{"$notes":{"rich_text":[{"text":{"content":"new"}}]}}}
	| properties.Name.title.0.plain_text = "Fix it, now!" | properties.Notes.rich_text.0.plain_text = "new"
	| created_time = "2000-01-01T00:00:00.000Z" | last_edited_time = "2000-01-01T00:02:00.000Z"
POST pages {"parent":{"database_id":"$tasks"}} | properties.ID.unique_id = {"prefix":"TASK","number":2} | properties.status.status.name = "OPEN"
PATCH pages/$id {"is_locked":true} | is_locked = true
PATCH pages/$id {"is_archived":true} | is_archived = true | is_locked = true
PATCH pages/$id {"is_locked":false,"is_archived":false} | is_locked = false | is_archived = false`)
	})
}

func TestTrash(t *testing.T) {
	const archived = ` | 400: body.archived should be `
	for _, c := range []struct {
		before bool   // whether the page is in the trash
		patch  string // version and body, and what holds
		after  bool
	}{
		{false, `22 {"archived":true} | in_trash = true`, true},
		{false, `22 {"in_trash":true} | in_trash = true`, true},
		{false, `26 {"in_trash":true} | in_trash = true`, true},
		{false, `22 {"archived":false} | in_trash = false`, false},
		{true, `22 {"archived":false} | in_trash = false`, false},
		{true, `26 {"in_trash":false} | in_trash = false`, false},
		{true, `22 {"properties":{"Notes":{"rich_text":[]}}} | 400: ` + errTrashed, true},
		{true, `22 {"archived":true} | 400: ` + errTrashed, true},
		{false, `26 {"archived":true}` + archived + `not present, instead was ´true´.`, false},
		{true, `26 {"archived":false}` + archived + `not present, instead was ´false´.`, true},
		{false, `22 {"archived":"yes"}` + archived + `a boolean or ´undefined´, instead was ´"yes"´.`, false},
	} {
		a, dbs := seeded(t, "empty")
		a.names["id"] = a.row(dbs.Tasks, nil)
		if c.before {
			must(t, a.e.TrashPage(a.names["id"]))
		}
		a.play(strings.Replace(c.patch, " ", " PATCH pages/$id ", 1))
		if p := a.page("$id"); p.Trashed != c.after {
			t.Errorf("%s: trashed = %v, want %v", c.patch, p.Trashed, c.after)
		}
	}
}

func TestArchivedIsAThirdState(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Job")})
	a.names["id"] = id
	must(t, a.e.ArchivePage(id, true))
	a.play(`
GET pages/$id | is_archived = true | in_trash = false | archived = false
POST databases/$tasks/query {} | titles = []
POST databases/$tasks/query {"is_archived":true} | titles = ["Job"]
POST databases/$tasks/query {"is_archived":"yes"} | 400
22 POST databases/$tasks/query {"in_trash":true} | 400: body.in_trash should be not present, instead was ´true´.
25 POST data_sources/$source/query {"in_trash":true} | 400: body.in_trash should be not present, instead was ´true´.
26 POST data_sources/$source/query {"in_trash":true} | 400: body.in_trash should be not present, instead was ´true´.`)
	must(t, a.e.ArchivePage(id, false))
	a.play(`POST databases/$tasks/query {} | titles = ["Job"]`)
	must(t, a.e.TrashPage(id))
	a.play(`
POST databases/$tasks/query {} | titles = []
POST databases/$tasks/query {"archived":true} | titles = ["Job"]`)
}

func TestPageRefusals(t *testing.T) {
	a, db, _ := full(t)
	a.names["row"] = a.row(db, nil)
	a.play(`
PATCH pages/$row | 400: body failed validation: body should be defined, instead was ´undefined´.
PATCH pages/$row {"colour":1} | 400: body.colour should be not present, instead was ´1´.
POST pages {} | 400: body.parent should be defined, instead was ´undefined´.
POST pages {"parent":{}} | 400: body.parent.page_id should be defined, instead was ´undefined´.
POST pages {"parent":{"database_id":"x"}} | 400: body.parent.database_id should be a valid uuid, instead was ´"x"´.
POST pages {"parent":{"database_id":"$db"},"properties":[]} | 400: body.properties should be an object or ´undefined´, instead was ´[]´.
POST pages {"parent":{"database_id":"$db"},"properties":{"Colour":{"rich_text":[]}}} | 400: Colour is not a property that exists.
PATCH pages/$row {"properties":{"Colour":{"rich_text":[]},"Select":{"rich_text":[]}}}
	| 400: Colour is not a property that exists. Select is expected to be select.
POST search {"query":"Home"} | $home = results.0.id
POST pages {"parent":{"page_id":"$home"},"properties":{"title":[{"text":{"content":"Notes"}}]}}
	| parent.page_id = "$home" | properties.title.title.0.plain_text = "Notes" | $below = id
PATCH pages/$below {"properties":{"Colour":{"rich_text":[]}}} | 400: Colour is not a property that exists.`)
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
	a.names["row"] = a.row(db, object{
		"Name": title("Row"), "Number": object{"number": 4}, "Relation": object{"relation": related},
		"Text": object{"rich_text": list{text("a")["rich_text"].(list)[0], text("b")["rich_text"].(list)[0]}},
	})
	a.play(`
GET pages/$row | #properties.Relation.relation = 25 | properties.Relation.has_more = true | $relation = properties.Relation.id
	| $number = properties.Number.id | $text = properties.Text.id
GET pages/$row/properties/$relation?page_size=20 | has_more = true | $url = property_item.next_url
GET pages/$row/properties/$number | object = "property_item" | type = "number" | number = 4
GET pages/$row/properties/$text | object = "list" | type = "property_item" | results.1.rich_text.plain_text = "b"
GET pages/$row/properties/title | results.0.title.plain_text = "Row"
GET pages/$row/properties/nope | 404`)
	var got list
	for more := "page_size=20"; more != ""; {
		next := a.play(`GET pages/$row/properties/$relation?` + more + ` | results.0.object = "property_item" | results.0.type = "relation"`)
		for _, r := range next["results"].(list) {
			got = append(got, at(r, "relation"))
		}
		more = ""
		if next["has_more"] == true {
			more = "page_size=20&start_cursor=" + next["next_cursor"].(string)
		}
	}
	same(t, related, got, "related pages")

	// A snapshot has them all; trashed pages are in neither.
	must(t, a.e.TrashPage(at(related, 0, "id").(string)))
	if p := a.page("$row"); len(p.Relation("Relation")) != 29 || p.Relation("Relation")[0] != at(related, 1, "id") {
		t.Errorf("a copy of the page has %d related pages, want 29", len(p.Relation("Relation")))
	}
}

func TestBlockLimit(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["id"] = a.row(dbs.Tasks, nil)
	must(t, a.e.SetBlockLimit(3))
	const one, two = `{"paragraph":{"rich_text":[]}}`, `{"paragraph":{"rich_text":[]}},{"paragraph":{"rich_text":[]}}`
	a.play(`
POST pages {"parent":{"database_id":"$tasks"}}
POST pages {"parent":{"database_id":"$tasks"},"children":[` + two + `]} | 403 | additional_data.block_limit = "block_creation"
PATCH blocks/$id/children {"children":[` + two + `]}
POST pages {"parent":{"database_id":"$tasks"}} | 403
PATCH blocks/$id/children {"children":[` + one + `]} | 403
PATCH pages/$id {"properties":{"Notes":{"rich_text":[]}}}`)
	a.row(dbs.Tasks, nil) // no limit outside of the API
	must(t, a.e.SetBlockLimit(-1))
	a.play(`POST pages {"parent":{"database_id":"$tasks"}}`)
	if n := len(a.e.Pages(dbs.Tasks)); n != 4 {
		t.Errorf("%d pages, want 4", n)
	}
}

func TestDirectAccessIsSeenAtOnce(t *testing.T) {
	a, dbs := seeded(t, "empty")
	id := a.row(dbs.Tasks, object{"Name": title("Job")})
	a.names["id"] = id
	must(t, a.e.EditPage(id, object{"claimed_by": text("Maria")}))
	a.play(`GET pages/$id | properties.claimed_by.rich_text.0.plain_text = "Maria"`)
	must(t, a.e.TrashPage(id))
	must(t, a.e.EditPage(id, object{"claimed_by": text("Jonas")})) // past the API
	must(t, a.e.RestorePage(id))
	if p := a.page(id); p.Trashed || p.Text("claimed_by") != "Jonas" || p.Database != dbs.Tasks || p.Title() != "Job" {
		t.Errorf("page is %+v", p)
	}
	if n := len(a.e.Requests()); n != 1 {
		t.Errorf("%d requests logged, want only the GET", n)
	}
	_, moved := a.e.CopyDataSource(nobody, "Copy")
	_, added := a.e.AddDataSource(nobody, "Ideas", nil)
	_, linked := a.e.LinkDatabase(nobody)
	for name, err := range map[string]error{
		"page": a.e.EditPage(nobody, nil), "property": a.e.EditPage(id, object{"Colour": text("x")}), "trash": a.e.TrashPage("x"),
		"schema": a.e.EditSchema(nobody, nil), "copy": moved, "data source": added, "link": linked, "unshare": a.e.UnsharePage(nobody),
		"move": a.e.MovePage(nobody, dbs.Tasks), "move to": a.e.MovePage(id, nobody), "tasks": start(t, emulator.Options{}).e.AddTasks(1),
	} {
		if err == nil {
			t.Errorf("unknown %s: no error", name)
		}
	}
	if _, ok := a.e.Page(nobody); ok || a.e.Pages(nobody) != nil {
		t.Error("what does not exist was found")
	}
}
