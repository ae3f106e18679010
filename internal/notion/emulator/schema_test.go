package emulator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

// everything returns a schema with a property of every type; its relation points to the database
// target.
func everything(target string) object {
	return object{
		"Name":     object{"title": object{}},
		"Text":     object{"rich_text": object{}},
		"Number":   object{"number": object{"format": "dollar"}},
		"Select":   object{"select": object{"options": list{object{"name": "red", "color": "red"}, object{"name": "blue"}}}},
		"Multi":    object{"multi_select": object{"options": list{object{"name": "a"}, object{"name": "b"}}}},
		"Status":   object{"status": object{"options": list{object{"name": "OPEN"}, object{"name": "DOING", "group": "In progress"}, object{"name": "DONE", "group": "Complete"}}}},
		"Date":     object{"date": object{}},
		"People":   object{"people": object{}},
		"Files":    object{"files": object{}},
		"Check":    object{"checkbox": object{}},
		"URL":      object{"url": object{}},
		"Email":    object{"email": object{}},
		"Phone":    object{"phone_number": object{}},
		"Relation": object{"relation": object{"database_id": target, "single_property": object{}}},
		"Formula":  object{"formula": object{"expression": "1"}},
		"Rollup":   object{"rollup": object{"function": "count", "relation_property_name": "Relation", "rollup_property_name": "Name"}},
		"Made":     object{"created_time": object{}},
		"Maker":    object{"created_by": object{}},
		"Edited":   object{"last_edited_time": object{}},
		"Editor":   object{"last_edited_by": object{}},
		"ID":       object{"unique_id": object{"prefix": "ROW"}},
		"Verified": object{"verification": object{}},
		"Button":   object{"button": object{}},
		"Place":    object{"place": object{}},
		"Strange":  object{"unsupported": object{}},
	}
}

// full starts an emulator with a database of that schema, related to tasks.
func full(t *testing.T) (a *api, db string, dbs emulator.Databases) {
	t.Helper()
	a, dbs = seeded(t, "demo")
	db, err := a.e.CreateDatabase("Everything", everything(dbs.Tasks))
	if err != nil {
		t.Fatal(err)
	}
	return a, db, dbs
}

// row makes a row without the API.
func (a *api) row(db string, properties object) string {
	a.t.Helper()
	id, err := a.e.CreatePage(db, properties)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

func TestSchemaShowsEveryType(t *testing.T) {
	a, db, dbs := full(t)
	got := a.ok("GET", "/v1/databases/"+db, nil)
	props := got["properties"].(object)
	if len(props) != len(everything("")) {
		t.Errorf("%d properties, want %d", len(props), len(everything("")))
	}
	for name, p := range props {
		kind, _ := at(p, "type").(string)
		if _, ok := at(p, kind).(object); !ok {
			t.Errorf("%s: nothing under its type %q: %v", name, kind, p)
		}
		if at(p, "name") != name {
			t.Errorf("%s is called %v", name, at(p, "name"))
		}
	}
	for _, c := range []struct {
		path []any
		want any
	}{
		{[]any{"Name", "id"}, "title"},
		{[]any{"Number", "number", "format"}, "dollar"},
		{[]any{"ID", "unique_id", "prefix"}, "ROW"},
		{[]any{"Formula", "formula", "expression"}, "1"},
		{[]any{"Select", "select", "options", 0, "color"}, "red"},
		{[]any{"Select", "select", "options", 1, "name"}, "blue"},
		{[]any{"Status", "status", "groups", 0, "name"}, "To-do"},
		{[]any{"Status", "status", "groups", 2, "option_ids", 0}, at(props, "Status", "status", "options", 2, "id")},
		{[]any{"Relation", "relation", "type"}, "single_property"},
		{[]any{"Relation", "relation", "database_id"}, dbs.Tasks},
	} {
		if got := at(props, c.path...); got != c.want || got == nil {
			t.Errorf("%v = %v, want %v", c.path, got, c.want)
		}
	}
}

func TestSchemaIsPatched(t *testing.T) {
	a, db, _ := full(t)
	path := "/v1/databases/" + db
	id := at(a.ok("GET", path, nil), "properties", "Text", "id").(string)

	got := a.ok("PATCH", path, object{"properties": object{
		id:       object{"name": "Prose"},
		"New":    object{"checkbox": object{}},
		"Email":  nil,
		"Number": object{"rich_text": object{}},
		"Status": object{"status": object{"options": list{object{"name": "OPEN"}, object{"name": "LATER"}}}},
	}})
	props := got["properties"]
	if at(props, "Prose", "id") != id || at(props, "Text") != nil {
		t.Errorf("renamed property: %v, old name: %v", at(props, "Prose"), at(props, "Text"))
	}
	if at(props, "New", "type") != "checkbox" || at(props, "Email") != nil || at(props, "Number", "type") != "rich_text" {
		t.Errorf("properties are %v", props)
	}
	// An option that a PATCH leaves out is removed.
	var names []any
	for _, o := range at(props, "Status", "status", "options").(list) {
		names = append(names, at(o, "name"))
	}
	if diff := cmp.Diff([]any{"OPEN", "LATER"}, names); diff != "" {
		t.Errorf("status options (-want +got):\n%s", diff)
	}
}

func TestRemovedOptionsLeaveTheRows(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, object{
		"Select": object{"select": object{"name": "red"}},
		"Status": object{"status": object{"name": "DONE"}},
	})
	if err := a.e.EditSchema(db, object{
		"Select": object{"select": object{"options": list{object{"name": "blue"}}}},
		"Status": object{"status": object{"options": list{object{"name": "OPEN"}}}},
	}); err != nil {
		t.Fatal(err)
	}
	p, _ := a.e.Page(id)
	if p.Value("Select") != nil || p.Select("Status") != "OPEN" {
		t.Errorf("Select = %v, Status = %q, want nothing and the default", p.Value("Select"), p.Select("Status"))
	}
}

func TestRenamedOptionsAreRenamedInTheRows(t *testing.T) {
	a, db, _ := full(t)
	id := a.row(db, object{"Select": object{"select": object{"name": "red"}}})
	option := at(a.ok("GET", "/v1/databases/"+db, nil), "properties", "Select", "select", "options", 0, "id")
	a.ok("PATCH", "/v1/databases/"+db, object{"properties": object{"Select": object{"select": object{"options": list{
		object{"id": option, "name": "crimson"},
	}}}}})
	if p, _ := a.e.Page(id); p.Select("Select") != "crimson" {
		t.Errorf("Select = %q, want crimson", p.Select("Select"))
	}
}

func TestSchemaRefusals(t *testing.T) {
	a, db, _ := full(t)
	for _, c := range []struct {
		name       string
		properties any
		message    string
	}{
		{"no object", "x", "body failed validation: body.properties should be an object or `undefined`, instead was `\"x\"`."},
		{"no type", object{"New": object{}}, "body failed validation: body.properties.New.type should be defined, instead was `undefined`."},
		{"removing what is not there", object{"Colour": nil}, "Colour is not a property that exists."},
		{"removing the title", object{"Name": nil}, "Cannot delete the title property."},
		{"a second title", object{"New": object{"title": object{}}}, "Cannot create a second title property."},
		{"the title as something else", object{"Name": object{"rich_text": object{}}}, "Cannot change the type of the title property."},
		{"a name that is taken", object{"Text": object{"name": "Date"}}, "Date is already the name of a property."},
		{"a comma", object{"Select": object{"select": object{"options": list{object{"name": "a,b"}}}}}, "Invalid select option, commas not allowed: a,b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := a.in(t)
			before := a.ok("GET", "/v1/databases/"+db, nil)["properties"]
			a.refused("PATCH", "/v1/databases/"+db, object{"properties": c.properties}, http.StatusBadRequest, "validation_error", c.message)
			if diff := cmp.Diff(before, a.ok("GET", "/v1/databases/"+db, nil)["properties"]); diff != "" {
				t.Errorf("a refused change changed the schema:\n%s", diff)
			}
		})
	}
}

func TestTwoWayRelationsMirrorEachOther(t *testing.T) {
	a, dbs := seeded(t, "empty")
	people, err := a.e.CreateDatabase("People", object{
		"Name":  object{"title": object{}},
		"Tasks": object{"relation": object{"database_id": dbs.Tasks, "dual_property": object{"synced_property_name": "Owner"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if kind := at(a.ok("GET", "/v1/databases/"+dbs.Tasks, nil), "properties", "Owner", "relation", "type"); kind != "dual_property" {
		t.Errorf("the mirroring property is of kind %v", kind)
	}
	ada := a.row(people, object{"Name": title("Ada")})
	job := a.row(dbs.Tasks, object{"Name": title("Job"), "Owner": object{"relation": list{object{"id": ada}}}})
	p, _ := a.e.Page(ada)
	if diff := cmp.Diff([]string{job}, p.Relation("Tasks")); diff != "" {
		t.Errorf("after the create (-want +got):\n%s", diff)
	}
	a.ok("PATCH", "/v1/pages/"+ada, object{"properties": object{"Tasks": object{"relation": list{}}}})
	if p, _ := a.e.Page(job); len(p.Relation("Owner")) != 0 {
		t.Errorf("Owner = %v after the other side was cleared", p.Relation("Owner"))
	}
}

func TestDatabasesAreCreated(t *testing.T) {
	a := start(t, emulator.Options{})
	home := at(a.ok("POST", "/v1/search", object{"filter": object{"property": "object", "value": "page"}}), "results", 0, "id")
	db := a.ok("POST", "/v1/databases", object{
		"parent":     object{"type": "page_id", "page_id": home},
		"title":      list{object{"text": object{"content": "Books"}}},
		"properties": object{"Title": object{"title": object{}}},
	})
	if at(db, "parent", "page_id") != home || at(db, "title", 0, "plain_text") != "Books" {
		t.Errorf("created %v", db)
	}
	a.ok("POST", "/v1/pages", object{"parent": object{"database_id": db["id"]}, "properties": object{"Title": title("Ulysses")}})
	a.ok("PATCH", "/v1/databases/"+db["id"].(string), object{"archived": true})
	got := a.refused("PATCH", "/v1/databases/"+db["id"].(string), object{"title": list{}}, http.StatusBadRequest, "validation_error",
		"Can't edit block that is archived. You must unarchive the block before editing.")
	if got.status == http.StatusOK {
		t.Error("a trashed database was edited")
	}
	a.refused("POST", "/v1/databases", object{"parent": object{"page_id": home}, "properties": object{}}, http.StatusBadRequest, "validation_error", "")
}

func TestStatusGroups(t *testing.T) {
	a := start(t, emulator.Options{})
	db, err := a.e.CreateDatabase("Jobs", object{
		"Name":  object{"title": object{}},
		"Plain": object{"status": object{}},
		"Placed": object{"status": object{"options": list{
			object{"name": "z", "group": "Complete"}, object{"name": "x"}, object{"name": "y", "group": "In progress"},
		}}},
		"Given": object{"status": object{
			"options": list{object{"name": "done"}, object{"name": "new"}},
			"groups":  list{object{"name": "To-do", "option_ids": list{"new"}}, object{"name": "Complete", "option_ids": list{"done"}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := a.row(db, nil)
	p, _ := a.e.Page(id)
	props := a.ok("GET", "/v1/databases/"+db, nil)["properties"]
	for name, want := range map[string]object{
		"Plain":  {"To-do": "Not started", "In progress": "In progress", "Complete": "Done"},
		"Placed": {"To-do": "x", "In progress": "y", "Complete": "z"},
		"Given":  {"To-do": "new", "Complete": "done"},
	} {
		got := object{}
		for _, g := range at(props, name, "status", "groups").(list) {
			for _, o := range at(props, name, "status", "options").(list) {
				if at(g, "option_ids", 0) == at(o, "id") {
					got[at(g, "name").(string)] = at(o, "name")
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// The default is the first of the first group.
		if p.Select(name) != want["To-do"] {
			t.Errorf("%s of a new row is %q, want %v", name, p.Select(name), want["To-do"])
		}
	}
}

// Notion takes another name or group for an option of a status, and changes nothing.
func TestStatusOptionsStay(t *testing.T) {
	a := start(t, emulator.Options{})
	db, err := a.e.CreateDatabase("Jobs", object{"Name": object{"title": object{}}, "Status": object{"status": object{}}})
	if err != nil {
		t.Fatal(err)
	}
	before := at(a.ok("GET", "/v1/databases/"+db, nil), "properties", "Status", "status")
	options := list{}
	for _, o := range at(before, "options").(list) {
		options = append(options, object{"id": at(o, "id"), "name": "New " + at(o, "name").(string), "group": "Complete"})
	}
	a.ok("PATCH", "/v1/databases/"+db, object{"properties": object{"Status": object{"status": object{"options": options}}}})
	after := at(a.ok("GET", "/v1/databases/"+db, nil), "properties", "Status", "status")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestDatabasesAreDescribed(t *testing.T) {
	a, dbs := seeded(t, "empty")
	path := "/v1/databases/" + dbs.Tasks
	words := func(s string) list { return list{object{"text": object{"content": s}}} }
	icon := object{"type": "emoji", "emoji": "🎯"}
	a.ok("PATCH", path, object{"title": words("Work"), "description": words("All of it"), "icon": icon, "is_inline": true})
	got := a.ok("GET", path, nil)
	if at(got, "title", 0, "plain_text") != "Work" || at(got, "description", 0, "plain_text") != "All of it" || got["is_inline"] != true {
		t.Errorf("database is %v", got)
	}
	if diff := cmp.Diff(icon, got["icon"]); diff != "" {
		t.Errorf("icon (-want +got):\n%s", diff)
	}
	if got := at(a.as("2025-09-03").ok("GET", path, nil), "data_sources", 0, "name"); got != "Work" {
		t.Errorf("the only data source is called %v", got)
	}
	id := a.row(dbs.Tasks, nil)
	a.ok("PATCH", pathPages+"/"+id, object{"icon": icon, "cover": object{"type": "external", "external": object{"url": "https://example.com"}}})
	page := a.ok("PATCH", pathPages+"/"+id, object{"cover": nil})
	if at(page, "icon", "emoji") != "🎯" || page["cover"] != nil {
		t.Errorf("icon %v, cover %v", page["icon"], page["cover"])
	}
}

func TestRelationsNameTheirTarget(t *testing.T) {
	a, dbs := seeded(t, "demo")
	source := a.sourceOf(dbs.Tasks)
	path := "/v1/databases/" + dbs.TaskLog
	a25, path25 := a.as("2025-09-03"), "/v1/data_sources/"+a.sourceOf(dbs.TaskLog)
	for i, relation := range []object{
		{"data_source_id": source, "single_property": object{}},
		{"database_id": dbs.Tasks, "type": "single_property", "single_property": object{}},
		{"data_source_id": source, "type": "dual_property", "dual_property": object{}},
	} {
		name := fmt.Sprint("R", i)
		a, path := a, path
		if relation["database_id"] == nil {
			a, path = a25, path25
		}
		for range 2 { // a repetition changes nothing
			got := at(a.ok("PATCH", path, object{"properties": object{name: object{"relation": relation}}}), "properties", name, "relation")
			if at(got, "database_id") != dbs.Tasks || at(got, "data_source_id") != source {
				t.Errorf("%v became %v", relation, got)
			}
		}
	}
	var mirrors []string
	for name := range a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["properties"].(object) {
		if strings.HasPrefix(name, "Related to") {
			mirrors = append(mirrors, name)
		}
	}
	if diff := cmp.Diff([]string{"Related to Agent Task Log (R2)"}, mirrors); diff != "" {
		t.Errorf("mirroring properties (-want +got):\n%s", diff)
	}
	for _, name := range []string{"S1", "S2"} {
		a.ok("PATCH", path, object{"properties": object{name: object{"relation": object{
			"database_id": dbs.Tasks, "dual_property": object{"synced_property_name": "Notes"},
		}}}})
	}
	props := a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["properties"]
	if at(props, "Notes", "type") != "rich_text" || at(props, "Notes 1", "type") != "relation" || at(props, "Notes 2", "type") != "relation" {
		t.Errorf("synced properties with a name that is taken: %v", props)
	}
	nowhere := func(key string) object {
		return object{"properties": object{"R": object{"relation": object{key: nobody}}}}
	}
	a.refused("PATCH", path, nowhere("database_id"), http.StatusNotFound, "object_not_found", "")
	a25.refused("PATCH", path25, nowhere("data_source_id"), http.StatusNotFound, "object_not_found", "")
	a.refused("PATCH", path, object{"properties": object{"R": object{"relation": object{}}}}, badRequest, validation,
		"body failed validation: body.properties.R.relation.database_id should be defined, instead was `undefined`.")
}
