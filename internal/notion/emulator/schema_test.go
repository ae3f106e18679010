package emulator_test

import (
	"net/url"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
)

// everything returns a schema with a property of every type; its relation points to the database
// target.
func everything(target string) object {
	return object{
		"Name": object{"title": object{}}, "Text": object{"rich_text": object{}}, "Number": object{"number": object{"format": "dollar"}},
		"Select": object{"select": object{"options": list{object{"name": "red", "color": "red"}, object{"name": "blue"}}}},
		"Multi":  object{"multi_select": object{"options": list{object{"name": "a"}, object{"name": "b"}}}},
		"Status": object{"status": object{"options": list{object{"name": "OPEN"}, object{"name": "DOING", "group": "In progress"}, object{"name": "DONE", "group": "Complete"}}}},
		"Date":   object{"date": object{}}, "People": object{"people": object{}}, "Files": object{"files": object{}}, "Check": object{"checkbox": object{}},
		"URL": object{"url": object{}}, "Email": object{"email": object{}}, "Phone": object{"phone_number": object{}},
		"Relation": object{"relation": object{"database_id": target, "single_property": object{}}},
		"Formula":  object{"formula": object{"expression": "1"}},
		"Rollup":   object{"rollup": object{"function": "count", "relation_property_name": "Relation", "rollup_property_name": "Name"}},
		"Made":     object{"created_time": object{}}, "Maker": object{"created_by": object{}},
		"Edited": object{"last_edited_time": object{}}, "Editor": object{"last_edited_by": object{}}, "ID": object{"unique_id": object{"prefix": "ROW"}},
		"Verified": object{"verification": object{}}, "Button": object{"button": object{}}, "Place": object{"place": object{}}, "Strange": object{"unsupported": object{}},
	}
}

// full starts an emulator with a database of that schema, $db, related to tasks.
func full(t *testing.T) (a *api, db string, dbs emulator.Databases) {
	t.Helper()
	a, dbs = seeded(t, "demo")
	db = need(a.e.CreateDatabase("Everything", everything(dbs.Tasks)))(t)
	a.names["db"] = db
	return a, db, dbs
}

// row makes a row without the API.
func (a *api) row(db string, properties object) string {
	a.t.Helper()
	return need(a.e.CreatePage(db, properties))(a.t)
}

func TestSchemaShowsEveryType(t *testing.T) {
	a, _, _ := full(t)
	props := a.play(`
GET databases/$db | properties.Name.id = "title" | properties.Number.number.format = "dollar" | properties.ID.unique_id.prefix = "ROW"
	| properties.Formula.formula.expression = "1" | properties.Select.select.options.0.color = "red" | properties.Select.select.options.1.name = "blue"
	| properties.Status.status.groups.0.name = "To-do" | $done = properties.Status.status.options.2.id
	| properties.Status.status.groups.2.option_ids = ["$done"] | properties.Relation.relation.type = "single_property"
	| properties.Relation.relation.database_id = "$tasks"`)["properties"].(object)
	if len(props) != len(everything("")) {
		t.Errorf("%d properties, want %d", len(props), len(everything("")))
	}
	for name, p := range props {
		kind, _ := at(p, "type").(string)
		if _, ok := at(p, kind).(object); !ok || at(p, "name") != name {
			t.Errorf("%s: called %v, and of type %q %v", name, at(p, "name"), kind, p)
		}
	}
}

func TestSchemaIsPatched(t *testing.T) {
	a, db, _ := full(t)
	a.names["row"] = a.row(db, object{"Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}}, "Status": status("DONE")})
	a.play(`
GET databases/$db | $text = properties.Text.id | $red = properties.Select.select.options.0.id
PATCH databases/$db {"properties":{"$text":{"name":"Prose"},"New":{"checkbox":{}},"Email":null,"Number":{"rich_text":{}},"Count":{"rollup":
	{"function":"count","relation_property_name":"Relation","rollup_property_id":"title"}},"Made":{"created_time":{"more":1}},"Formula":{"formula":{}}}}
	| properties.Prose.id = "$text" | properties.Text = null | properties.New.type = "checkbox" | properties.Email = null | properties.Number.type = "rich_text"
	| properties.Made.created_time = {} | properties.Formula.formula = {"expression":"1"} | properties.Count.rollup.rollup_property_name = "Name"
PATCH databases/$db {"properties":{"New":{"number":{},"description":"how many"}}} | properties.New.number.format = "number" | properties.New.description = "how many"
PATCH databases/$db {"properties":{"New":{"number":{},"description":null}}} | properties.New.description = null
PATCH databases/$db {"properties":{"Status":{"status":{"options":[{"name":"OPEN"},{"name":"LATER"}]}},"Multi":{"multi_select":{"options":[{"name":"b"}]}},
	"Select":{"select":{"options":[{"id":"$red","name":"crimson","description":"stop"}]}}}}
	| #properties.Status.status.options = 2 | properties.Status.status.options.1.name = "LATER" | properties.Select.select.options.0.description = "stop"`)
	// Options that are left out are taken from the rows.
	if p := a.page("$row"); p.Text("Multi") != "" || p.Select("Status") != "OPEN" || p.Select("Select") != "crimson" {
		t.Errorf("Multi = %v, Status = %q, Select = %q, want nothing, the default and the new name", p.Value("Multi"), p.Select("Status"), p.Select("Select"))
	}
	must(t, a.e.EditSchema(db, object{"Select": object{"select": object{"options": list{}}}}))
	if p := a.page("$row"); p.Value("Select") != nil {
		t.Errorf("Select = %v", p.Value("Select"))
	}
}

func TestSchemaRefusals(t *testing.T) {
	a, _, _ := full(t)
	before := a.play(`GET databases/$db`)["properties"]
	const patch = `PATCH databases/$db {"properties":`
	a.play(patch + `"x"} | 400: body.properties should be an object or ´undefined´, instead was ´"x"´.
` + patch + `{"New":{}}} | 400: body.properties.New.type should be defined, instead was ´undefined´.
` + patch + `{"Colour":null}} | 400: Colour is not a property that exists.
` + patch + `{"Name":null}} | 400: Cannot delete the title property.
` + patch + `{"New":{"title":{}}}} | 400: Cannot create a second title property.
` + patch + `{"Name":{"rich_text":{}}}} | 400: Cannot change the type of the title property.
` + patch + `{"Text":{"name":"Date"}}} | 400: Date is already the name of a property.
` + patch + `{"Until":{"formula":{"expression":"dateAdd(prop(\"Since\"), 30, \"minutes\")"}}}} | 400: Could not find property with name or id: Since
` + patch + `{"Select":{"select":{"options":[{"name":"a,b"}]}}}} | 400: Invalid select option, commas not allowed: a,b`)
	same(t, before, a.play(`GET databases/$db`)["properties"], "after refused changes")
}

func TestSchemasOfUniqueIDsAndRollups(t *testing.T) {
	a, dbs := seeded(t, "empty")
	must(t, a.e.EditSchema(dbs.MeshLog, object{
		"Number": object{"unique_id": object{}}, "Work": object{"relation": object{"database_id": dbs.Tasks, "single_property": object{}}},
	}))
	must(t, a.e.EditSchema(dbs.MeshLog, object{"Latest": object{"rollup": object{
		"relation_property_name": "Work", "rollup_property_name": "claimed_at", "function": "latest_date",
	}}}))
	a.play(`GET databases/$tasks | $at = properties.claimed_at.id
GET databases/$mesh | properties.Number.unique_id = {"prefix":null} | $work = properties.Work.id`)
	for _, name := range []string{"at", "work"} { // most answers escape ids
		a.names[name] = need(url.QueryUnescape(a.names[name]))(t)
	}
	got := a.play(`GET databases/$mesh`)["properties"]
	same(t, any(object{
		"relation_property_name": "Work", "relation_property_id": a.names["work"],
		"rollup_property_name": "claimed_at", "rollup_property_id": a.names["at"], "function": "latest_date",
	}), at(got, "Latest", "rollup"), "rollup")
}

func TestTwoWayRelationsMirrorEachOther(t *testing.T) {
	a, dbs := seeded(t, "empty")
	people := need(a.e.CreateDatabase("People", object{
		"Name":  object{"title": object{}},
		"Tasks": object{"relation": object{"database_id": dbs.Tasks, "dual_property": object{"synced_property_name": "Owner"}}},
	}))(t)
	a.play(`GET databases/$tasks | properties.Owner.relation.type = "dual_property"`)
	a.names["ada"] = a.row(people, object{"Name": title("Ada")})
	job := a.row(dbs.Tasks, object{"Name": title("Job"), "Owner": object{"relation": list{object{"id": a.names["ada"]}}}})
	same(t, []string{job}, a.page("$ada").Relation("Tasks"), "after the create")
	a.play(`PATCH pages/$ada {"properties":{"Tasks":{"relation":[]}}}`)
	same(t, []string(nil), a.page(job).Relation("Owner"), "after the other side was cleared")
}

func TestStatusGroups(t *testing.T) {
	a := start(t, emulator.Options{})
	db := need(a.e.CreateDatabase("Jobs", object{
		"Name": object{"title": object{}}, "Plain": object{"status": object{}},
		"Placed": object{"status": object{"options": list{
			object{"name": "z", "group": "Complete"}, object{"name": "x"}, object{"name": "y", "group": "In progress"},
		}}},
		"Given": object{"status": object{
			"options": list{object{"name": "done"}, object{"name": "new"}},
			"groups":  list{object{"name": "To-do", "option_ids": list{"new"}}, object{"name": "Complete", "option_ids": list{"done"}}},
		}},
	}))(t)
	p := a.page(a.row(db, nil))
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
		same(t, want, got, "%s", name)
		if p.Select(name) != want["To-do"] { // the default is the first of the first group
			t.Errorf("%s of a new row is %q, want %v", name, p.Select(name), want["To-do"])
		}
	}
	// Notion takes another name or group for an option of a status, and changes nothing.
	before := at(props, "Plain", "status")
	options := list{}
	for _, o := range at(before, "options").(list) {
		options = append(options, object{"id": at(o, "id"), "name": "New " + at(o, "name").(string), "group": "Complete"})
	}
	after := a.ok("PATCH", "/v1/databases/"+db, object{"properties": object{"Plain": object{"status": object{"options": options}}}})
	same(t, before, at(after, "properties", "Plain", "status"), "after other names")
}

func TestRelationsNameTheirTarget(t *testing.T) {
	a, _ := seeded(t, "demo")
	a.names["logs"] = a.sourceOf(a.names["log"])
	for range 2 { // a repetition changes nothing
		for i, line := range []string{
			`25 PATCH data_sources/$logs {"properties":{"R0":{"relation":{"data_source_id":"$source","single_property":{}}}}}`,
			`26 PATCH data_sources/$logs {"properties":{"R1":{"relation":{"data_source_id":"$source","type":"dual_property","dual_property":{}}}}}`,
			`22 PATCH databases/$log {"properties":{"R2":{"relation":{"database_id":"$tasks","type":"single_property","single_property":{}}}}}`,
		} {
			of := " | properties.R" + string(rune('0'+i)) + ".relation."
			a.play(line + of + `database_id = "$tasks"` + of + `data_source_id = "$source"`)
		}
	}
	var mirrors []string
	for name := range a.play(`GET databases/$tasks`)["properties"].(object) {
		if strings.HasPrefix(name, "Related to") {
			mirrors = append(mirrors, name)
		}
	}
	same(t, []string{"Related to Agent Task Log (R1)"}, mirrors, "mirroring properties")
	a.play(`
PATCH databases/$log {"properties":{"S1":{"relation":{"database_id":"$tasks","dual_property":{"synced_property_name":"Notes"}}}}}
PATCH databases/$log {"properties":{"S2":{"relation":{"database_id":"$tasks","dual_property":{"synced_property_name":"Notes"}}}}}
GET databases/$tasks | properties.Notes.type = "rich_text" | properties.Notes 1.type = "relation" | properties.Notes 2.type = "relation"
PATCH databases/$log {"properties":{"R":{"relation":{"database_id":"$nobody"}}}} | 404
25 PATCH data_sources/$logs {"properties":{"R":{"relation":{"data_source_id":"$nobody"}}}} | 404
PATCH databases/$log {"properties":{"R":{"relation":{}}}} | 400: body.properties.R.relation.database_id should be defined, instead was ´undefined´.
25 PATCH data_sources/$logs {"properties":{"R":{"relation":{"database_id":"$tasks","single_property":{}}}}} | 400
26 PATCH data_sources/$logs {"properties":{"R":{"relation":{"database_id":"$tasks","single_property":{}}}}} | 400
25 PATCH data_sources/$logs {"properties":{"R":{"relation":{"single_property":{}}}}} | 400`)
}
