package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDataSources(t *testing.T) {
	a, _ := seeded(t, "empty")
	a.play(`
25 GET databases/$tasks | properties = null | #data_sources = 1 | data_sources.0.name = "Tasks"
25 GET data_sources/$source | object = "data_source" | parent.database_id = "$tasks" | properties.status.type = "status"
25 POST pages {"parent":{"type":"data_source_id","data_source_id":"$source"},"properties":{"Name":{"title":[{"text":{"content":"Job"}}]}}}
	| parent = {"type":"data_source_id","data_source_id":"$source","database_id":"$tasks"}
25 POST data_sources/$source/query {"filter":{"property":"status","status":{"equals":"OPEN"}}} | titles = ["Job"]
25 PATCH data_sources/$source {"title":[{"text":{"content":"Work"}}],"properties":{"Extra":{"number":{}}},"icon":{"emoji":"x"}}
	| title.0.plain_text = "Work" | properties.Extra.number.format = "number" | icon.type = "emoji"
25 PATCH data_sources/$source {"icon":null} | icon = null
25 PATCH databases/$tasks {"properties":{"Extra":null}} | 400
25 GET data_sources/$nobody | 404
26 PATCH data_sources/$source {"archived":true} | 400: body.archived should be not present, instead was ´true´.
25 POST views {"database_id":"$tasks","data_source_id":"$source","name":"All","type":"table"} | $view = id | $url = url
25 GET views/$view | url = "$url"`)
	if want := "https://www.notion.so/" + undashed(a.names["tasks"]) + "?v=" + undashed(a.names["view"]); a.names["url"] != want {
		t.Errorf("the view is at %s, want %s", a.names["url"], want)
	}
}

func TestOldVersionsKnowOneDataSource(t *testing.T) {
	a, dbs := seeded(t, "demo")
	a.names["task"] = a.e.Pages(dbs.Tasks)[0].ID
	a.play(`25 POST data_sources {"parent":{"type":"database_id","database_id":"$tasks"},"title":[{"text":{"content":"Ideas"}}],"properties":{"Idea":{"title":{}}}} | $second = id`)
	for _, request := range []string{ // the database and relations to it are refused
		`GET databases/$tasks`, `PATCH databases/$tasks {}`, `POST databases/$tasks/query {}`, `POST pages {"parent":{"database_id":"$tasks"}}`,
		`PATCH pages/$task {"properties":{"depends_on":{"relation":[]}}}`,
	} {
		a.play(request + ` | 400: Databases with multiple data sources are not supported in this API version. | additional_data =
	{"error_type":"multiple_data_sources_for_database","database_id":"$tasks","child_data_source_ids":["$source","$second"],"minimum_api_version":"2025-09-03"}`)
	}
	// Its pages still work. New versions must name the data source.
	a.play(`
GET pages/$task
PATCH pages/$task {"properties":{"Notes":{"rich_text":[]}}}
25 POST pages {"parent":{"database_id":"$tasks"}} | 400
25 POST pages {"parent":{"data_source_id":"$second"},"properties":{"Idea":{"title":[{"text":{"content":"Fly"}}]}}}
25 POST data_sources/$second/query | titles = ["Fly"]
25 GET databases/$tasks | #data_sources = 2`)
	if n := len(a.e.Pages(dbs.Tasks)); n != 21 {
		t.Errorf("%d pages, want those of both sources, 21", n)
	}
}

// A database that is made without a title has Notion's. Old versions show its times to the minute, later
// ones to the millisecond and with an offset; data sources all to the minute.
func TestDatabasesAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(61*time.Second + 234*time.Millisecond)
		a, dbs := seeded(t, "empty")
		a.play(`
22 GET databases/$tasks | created_time = "2000-01-01T00:01:00.000Z" | $home = parent.page_id
25 GET databases/$tasks | created_time = "2000-01-01T00:01:01.234+00:00"
26 POST databases {"parent":{"type":"page_id","page_id":"$home"},"initial_data_source":{"properties":{"Name":{"title":{}}}}}
	| title.0.plain_text = "New database" | data_sources.0.name = "New database" | created_by = null | last_edited_by = null | is_locked = false
	| created_time = "2000-01-01T00:01:01.234+00:00" | $made = id | $new = data_sources.0.id
26 PATCH databases/$made {"is_locked":true} | is_locked = true
26 GET data_sources/$new | created_time = "2000-01-01T00:01:00.000Z" | last_edited_time = "2000-01-01T00:01:00.000Z" | created_by.object = "user"
22 POST databases {"parent":{"type":"page_id","page_id":"$home"},"title":[{"text":{"content":"Books"}}],"properties":{"Title":{"title":{}}}}
	| parent.page_id = "$home" | title.0.plain_text = "Books" | $books = id
POST pages {"parent":{"database_id":"$books"},"properties":{"Title":{"title":[{"text":{"content":"Ulysses"}}]}}}
PATCH databases/$books {"archived":true}
PATCH databases/$books {"title":[]} | 400: ` + errTrashed + `
POST databases {"parent":{"page_id":"$home"},"properties":{}} | 400
PATCH databases/$tasks {"title":[{"text":{"content":"Work"}}],"description":[{"text":{"content":"All of it"}}],"icon":{"type":"emoji","emoji":"🎯"},"is_inline":true}
GET databases/$tasks | title.0.plain_text = "Work" | description.0.plain_text = "All of it" | is_inline = true | icon = {"type":"emoji","emoji":"🎯"}
25 GET databases/$tasks | data_sources.0.name = "Work"`)
		a.names["row"] = a.row(dbs.Tasks, nil)
		a.play(`
PATCH pages/$row {"icon":{"type":"emoji","emoji":"🎯"},"cover":{"type":"external","external":{"url":"https://example.com"}}}
PATCH pages/$row {"cover":null} | icon.emoji = "🎯" | cover = null`)
		for i, version := range versions { // archived vanishes from the last version
			for _, path := range []string{"databases/" + dbs.Tasks, "pages/" + a.names["row"], "blocks/" + a.names["row"]} {
				got := a.as(version).play("GET " + path + " | in_trash = false")
				if _, ok := got["archived"]; ok != (i < 2) {
					t.Errorf("%s %s: archived is there: %v", version, path, ok)
				}
			}
		}
	})
}

// A data source in the trash does not count, and the last one cannot be trashed.
func TestDataSourcesInTheTrash(t *testing.T) {
	a, dbs := seeded(t, "empty")
	second := need(a.e.AddDataSource(dbs.Tasks, "Ideas", object{"Idea": object{"title": object{}}}))(t)
	a.names["second"], a.names["idea"] = second, need(a.e.CreatePage(second, object{"Idea": title("Fly")}))(t)
	must(t, a.e.EditSchema(second, object{"Cost": object{"number": object{}}}))
	a.play(`
25 GET pages/$idea | parent.data_source_id = "$second"
25 GET data_sources/$second | properties.Cost.type = "number"
POST databases/$tasks/query {} | 400`)
	must(t, a.e.TrashDataSource(a.names["source"]))
	a.play(`
POST databases/$tasks/query {} | titles = ["Fly"]
25 GET databases/$tasks | #data_sources = 1`)
	if err := a.e.TrashDataSource(second); err == nil {
		t.Error("a person put the last data source into the trash")
	}
	a.play(`
25 PATCH data_sources/$second {"in_trash":true} | 400
25 PATCH data_sources/$source {"in_trash":false}
25 PATCH data_sources/$second {"in_trash":true}
POST databases/$tasks/query {} | titles = []`)
}

// A linked database has no data source. A wiki's rows may be databases. A copied data source relates to
// itself, and has no rows.
func TestDatabasesOfOtherKinds(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["linked"] = need(a.e.LinkDatabase(dbs.Tasks))(t)
	const says = ` | 400: Database with ID $linked does not contain any data sources accessible by this API bot.`
	for _, version := range versions {
		a.as(version).play(`
GET databases/$linked` + says + `
PATCH databases/$linked {}` + says + `
POST pages {"parent":{"database_id":"$linked"}}` + says + `
POST search {}
GET databases/$tasks | $home = parent.page_id
GET blocks/$home/children | results.3.id = "$linked" | results.3.type = "child_database"`)
	}
	a.play(`POST databases/$linked/query {}` + says)

	a.row(dbs.Tasks, object{"Name": title("page")})
	a.names["wiki"] = need(a.e.CreateRowDatabase(dbs.Tasks, "Handbook", object{"Name": object{"title": object{}}}))(t)
	a.play(`
POST databases/$tasks/query {} | results.0.object = "page" | results.1.object = "database"
25 POST data_sources/$source/query {} | results.0.object = "page" | results.1.object = "data_source" | results.1.parent.database_id = "$wiki"
25 GET databases/$wiki | parent.database_id = "$tasks"`)
	a.names["again"] = need(a.e.CopyDataSource(dbs.Tasks, "Again"))(t)
	want := a.play(`25 GET data_sources/$source`)["properties"].(object)
	got := a.play(`25 GET data_sources/$again | properties.depends_on.relation.data_source_id = "$again"`)["properties"].(object)
	delete(want, "depends_on")
	delete(got, "depends_on")
	same(t, want, got, "properties of the copy")
	a.play(`25 POST data_sources/$again/query {} | results = []`)
}

// The formula of a claim's end is computed: a date, or empty.
func TestFormulaOfALease(t *testing.T) {
	a, dbs := seeded(t, "empty")
	for _, c := range [][3]string{
		{`{"start":"2026-11-22T14:02:59Z"}`, "null", `"2026-11-22T14:32:00.000+00:00"`},
		{`{"start":"2026-11-22T14:02:00+01:00"}`, "90", `"2026-11-22T15:32:00.000+01:00"`},
		{`{"start":"2026-11-22T14:02:00Z"}`, "0", `"2026-11-22T14:32:00.000+00:00"`},
		{"null", "90", "null"},
	} {
		a.names["row"] = a.row(dbs.Tasks, nil)
		a.play(`PATCH pages/$row {"properties":{"claimed_at":{"date":` + c[0] + `},"claim_timeout_minutes":{"number":` + c[1] + `}}}
	| properties.claimed_until.formula.type = "date" | properties.claimed_until.formula.date.start = ` + c[2])
	}
}
