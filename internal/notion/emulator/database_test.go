package emulator_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
)

func TestDataSources(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a25 := a.as("2025-09-03")
	db := a25.ok("GET", "/v1/databases/"+dbs.Tasks, nil)
	if db["properties"] != nil {
		t.Error("a database has properties of its own")
	}
	sources := db["data_sources"].(list)
	if len(sources) != 1 || at(sources, 0, "name") != "Tasks" {
		t.Fatalf("data sources are %v", sources)
	}
	source := at(sources, 0, "id").(string)

	got := a25.ok("GET", "/v1/data_sources/"+source, nil)
	if got["object"] != "data_source" || at(got, "parent", "database_id") != dbs.Tasks || at(got, "properties", "status", "type") != "status" {
		t.Errorf("data source is %v", got)
	}
	page := a25.ok("POST", pathPages, object{"parent": object{"type": "data_source_id", "data_source_id": source}, "properties": object{"Name": title("Job")}})
	want := object{"type": "data_source_id", "data_source_id": source, "database_id": dbs.Tasks}
	if diff := cmp.Diff(want, page["parent"]); diff != "" {
		t.Errorf("parent (-want +got):\n%s", diff)
	}
	rows := a25.ok("POST", "/v1/data_sources/"+source+"/query", object{"filter": object{"property": "status", "status": object{"equals": "OPEN"}}})
	if diff := cmp.Diff([]string{"Job"}, titles(rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	patched := a25.ok("PATCH", "/v1/data_sources/"+source, object{
		"title": list{object{"text": object{"content": "Work"}}}, "properties": object{"Extra": object{"number": object{}}},
	})
	if at(patched, "title", 0, "plain_text") != "Work" || at(patched, "properties", "Extra", "number", "format") != "number" {
		t.Errorf("patched: %v", patched)
	}
	a25.refused("PATCH", "/v1/databases/"+dbs.Tasks, object{"properties": object{"Extra": nil}}, badRequest, validation, "")
	a25.refused("GET", "/v1/data_sources/"+nobody, nil, http.StatusNotFound, "object_not_found", "")
	a.as("2026-03-11").refused("PATCH", "/v1/data_sources/"+source, object{"archived": true}, badRequest, validation,
		"body failed validation: body.archived should be not present, instead was `true`.")
}

func TestOldVersionsKnowOneDataSource(t *testing.T) {
	a, dbs := seeded(t, "demo")
	a25 := a.as("2025-09-03")
	first := a.sourceOf(dbs.Tasks)
	task := a.e.Pages(dbs.Tasks)[0].ID
	second := a25.ok("POST", "/v1/data_sources", object{
		"parent":     object{"type": "database_id", "database_id": dbs.Tasks},
		"title":      list{object{"text": object{"content": "Ideas"}}},
		"properties": object{"Idea": object{"title": object{}}},
	})["id"]

	// The database and relations to it are refused.
	create := object{"parent": object{"database_id": dbs.Tasks}}
	for _, c := range []struct {
		method, path string
		body         object
	}{
		{"GET", "/v1/databases/" + dbs.Tasks, nil},
		{"PATCH", "/v1/databases/" + dbs.Tasks, object{}},
		{"POST", "/v1/databases/" + dbs.Tasks + "/query", object{}},
		{"POST", pathPages, create},
		{"PATCH", pathPages + "/" + task, object{"properties": object{"depends_on": object{"relation": list{}}}}},
	} {
		r := a.refused(c.method, c.path, c.body, badRequest, validation, "Databases with multiple data sources are not supported in this API version.")
		want := object{
			"error_type": "multiple_data_sources_for_database", "database_id": dbs.Tasks,
			"child_data_source_ids": list{first, second}, "minimum_api_version": "2025-09-03",
		}
		if diff := cmp.Diff(want, r.body["additional_data"]); diff != "" {
			t.Errorf("%s %s: additional_data (-want +got):\n%s", c.method, c.path, diff)
		}
	}
	// Its pages still work.
	a.ok("GET", pathPages+"/"+task, nil)
	a.ok("PATCH", pathPages+"/"+task, object{"properties": object{"Notes": text("x")}})

	// New versions must name the data source.
	a25.refused("POST", pathPages, create, badRequest, validation, "")
	a25.ok("POST", pathPages, object{"parent": object{"data_source_id": second}, "properties": object{"Idea": title("Fly")}})
	if got := titles(a25.ok("POST", "/v1/data_sources/"+second.(string)+"/query", nil)); !cmp.Equal(got, []string{"Fly"}) {
		t.Errorf("rows of the second are %v", got)
	}
	if n := len(a25.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["data_sources"].(list)); n != 2 {
		t.Errorf("%d data sources, want 2", n)
	}
	if n := len(a.e.Pages(dbs.Tasks)); n != 21 {
		t.Errorf("%d pages, want those of both sources, 21", n)
	}
}

func TestAddDataSource(t *testing.T) {
	a, dbs := seeded(t, "empty")
	if _, err := a.e.AddDataSource(dbs.Tasks, "Ideas", object{"Idea": object{"title": object{}}}); err != nil {
		t.Fatal(err)
	}
	a.refused("GET", "/v1/databases/"+dbs.Tasks, nil, badRequest, validation, "")
	if _, err := a.e.AddDataSource(nobody, "Ideas", nil); err == nil {
		t.Error("a data source was added to no database")
	}
}

// Old versions show a database's timestamps to the minute, later ones to the millisecond and with
// an offset.
func TestDatabaseTimestamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(61*time.Second + 234*time.Millisecond)
		a, dbs := seeded(t, "empty")
		for version, want := range map[string]string{
			"2022-06-28": "2000-01-01T00:01:00.000Z",
			"2025-09-03": "2000-01-01T00:01:01.234+00:00",
			"2026-03-11": "2000-01-01T00:01:01.234+00:00",
		} {
			if got := a.as(version).ok("GET", "/v1/databases/"+dbs.Tasks, nil)["created_time"]; got != want {
				t.Errorf("%s: created_time = %v, want %s", version, got, want)
			}
		}
	})
}

func TestArchivedVanishesFromTheLastVersion(t *testing.T) {
	a, dbs := seeded(t, "demo")
	page := a.e.Pages(dbs.Tasks)[0].ID
	for version, want := range map[string]bool{"2022-06-28": true, "2025-09-03": true, "2026-03-11": false} {
		for _, path := range []string{"/v1/databases/" + dbs.Tasks, pathPages + "/" + page, "/v1/blocks/" + page} {
			got := a.as(version).ok("GET", path, nil)
			if _, ok := got["archived"]; ok != want {
				t.Errorf("%s %s: archived is there: %v, want %v", version, path, ok, want)
			}
			if _, ok := got["in_trash"]; !ok {
				t.Errorf("%s %s: no in_trash", version, path)
			}
		}
	}
}

// A data source in the trash does not count, and the last one cannot be trashed.
func TestDataSourcesInTheTrash(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a25 := a.as("2025-09-03")
	first := a.sourceOf(dbs.Tasks)
	second, err := a.e.AddDataSource(dbs.Tasks, "Ideas", object{"Idea": object{"title": object{}}})
	if err != nil {
		t.Fatal(err)
	}
	idea, err := a.e.CreatePage(second, object{"Idea": title("Fly")})
	if err != nil {
		t.Fatal(err)
	}
	if got := a25.ok("GET", pathPages+"/"+idea, nil); at(got, "parent", "data_source_id") != second {
		t.Errorf("the page is in %v", got["parent"])
	}
	if err := a.e.EditSchema(second, object{"Cost": object{"number": object{}}}); err != nil {
		t.Fatal(err)
	}
	if got := a25.ok("GET", "/v1/data_sources/"+second, nil); at(got, "properties", "Cost", "type") != "number" {
		t.Errorf("the second is %v", got)
	}
	a.refused("POST", "/v1/databases/"+dbs.Tasks+"/query", object{}, badRequest, validation, "")

	if err := a.e.TrashDataSource(first); err != nil {
		t.Fatal(err)
	}
	if got := titles(a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{})); !cmp.Equal(got, []string{"Fly"}) {
		t.Errorf("rows are %v, want those of the second", got)
	}
	if n := len(a25.ok("GET", "/v1/databases/"+dbs.Tasks, nil)["data_sources"].(list)); n != 1 {
		t.Errorf("%d data sources, want 1", n)
	}
	if err := a.e.TrashDataSource(second); err == nil {
		t.Error("a person put the last data source into the trash")
	}
	a25.refused("PATCH", "/v1/data_sources/"+second, object{"in_trash": true}, badRequest, validation, "")
	a25.ok("PATCH", "/v1/data_sources/"+first, object{"in_trash": false})
	a25.ok("PATCH", "/v1/data_sources/"+second, object{"in_trash": true})
	if got := titles(a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{})); len(got) != 0 {
		t.Errorf("rows are %v, want those of the first", got)
	}
}

func TestLinkedDatabases(t *testing.T) {
	a, dbs := seeded(t, "empty")
	linked, err := a.e.LinkDatabase(dbs.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	says := "Database with ID " + linked + " does not contain any data sources accessible by this API bot."
	for _, version := range []string{"2022-06-28", "2025-09-03", "2026-03-11"} {
		a.as(version).refused("GET", "/v1/databases/"+linked, nil, badRequest, validation, says)
		a.as(version).refused("PATCH", "/v1/databases/"+linked, object{}, badRequest, validation, says)
		a.as(version).refused("POST", pathPages, object{"parent": object{"database_id": linked}}, badRequest, validation, says)
		a.as(version).ok("POST", "/v1/search", object{})
		home := at(a.as(version).ok("GET", "/v1/databases/"+dbs.Tasks, nil), "parent", "page_id").(string)
		blocks := a.as(version).ok("GET", "/v1/blocks/"+home+"/children", nil)["results"].(list)
		if last := blocks[len(blocks)-1]; at(last, "id") != linked || at(last, "type") != "child_database" {
			t.Errorf("%s: the page shows %v", version, last)
		}
	}
	a.refused("POST", "/v1/databases/"+linked+"/query", object{}, badRequest, validation, says)
	if _, err := a.e.LinkDatabase(nobody); err == nil {
		t.Error("no database was linked")
	}
}

// A wiki's rows may be databases.
func TestDatabasesAsRows(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.row(dbs.Tasks, object{"Name": title("page")})
	id, err := a.e.CreateRowDatabase(dbs.Tasks, "Handbook", object{"Name": object{"title": object{}}})
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(answer object) (got []string) {
		for _, row := range answer["results"].(list) {
			got = append(got, row.(object)["object"].(string))
		}
		return got
	}
	if diff := cmp.Diff([]string{"page", "database"}, kinds(a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{}))); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	source := a.sourceOf(dbs.Tasks)
	rows := a.as("2025-09-03").ok("POST", "/v1/data_sources/"+source+"/query", object{})
	if diff := cmp.Diff([]string{"page", "data_source"}, kinds(rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := at(rows, "results", 1, "parent", "database_id"); got != id {
		t.Errorf("the row is of database %v, want %s", got, id)
	}
	if got := at(a.as("2025-09-03").ok("GET", "/v1/databases/"+id, nil), "parent", "database_id"); got != dbs.Tasks {
		t.Errorf("the row lies in %v, want %s", got, dbs.Tasks)
	}
}

func TestCopiedDataSources(t *testing.T) {
	a, dbs := seeded(t, "demo")
	copied, err := a.e.CopyDataSource(dbs.Tasks, "Copy")
	if err != nil {
		t.Fatal(err)
	}
	a25 := a.as("2025-09-03")
	want := a25.ok("GET", "/v1/data_sources/"+a.sourceOf(dbs.Tasks), nil)["properties"].(object)
	got := a25.ok("GET", "/v1/data_sources/"+copied, nil)["properties"].(object)
	if at(got, "depends_on", "relation", "data_source_id") != copied {
		t.Errorf("the copy relates to %v", at(got, "depends_on"))
	}
	delete(want, "depends_on")
	delete(got, "depends_on")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	if rows := a25.ok("POST", "/v1/data_sources/"+copied+"/query", object{})["results"].(list); len(rows) != 0 {
		t.Errorf("the copy has %d rows", len(rows))
	}
	if _, err := a.e.CopyDataSource(nobody, "Copy"); err == nil {
		t.Error("no data source was copied")
	}
}

// The formula of a claim's end is computed: a date, or empty.
func TestFormulaOfALease(t *testing.T) {
	a := start(t, emulator.Options{})
	dbs, err := a.e.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		claimed any
		minutes any
		want    string
	}{
		{object{"start": "2026-11-22T14:02:59Z"}, nil, "2026-11-22T14:32:00.000+00:00"},
		{object{"start": "2026-11-22T14:02:00+01:00"}, 90, "2026-11-22T15:32:00.000+01:00"},
		{object{"start": "2026-11-22T14:02:00Z"}, 0, "2026-11-22T14:32:00.000+00:00"},
		{nil, 90, ""},
	} {
		id := a.row(dbs.Tasks, object{"claimed_at": object{"date": tt.claimed}, "claim_timeout_minutes": object{"number": tt.minutes}})
		got := at(a.ok("GET", "/v1/pages/"+id, nil), "properties", "claimed_until", "formula")
		if at(got, "type") != "date" {
			t.Fatalf("formula %v, want a date", got)
		}
		start, _ := at(got, "date", "start").(string)
		if start != tt.want {
			t.Errorf("claimed at %v for %v: %q, want %q", tt.claimed, tt.minutes, start, tt.want)
		}
	}
	a.refused("PATCH", "/v1/databases/"+dbs.Tasks, object{"properties": object{"Until": object{"formula": object{"expression": `dateAdd(prop("Since"), 30, "minutes")`}}}},
		http.StatusBadRequest, "validation_error", "Could not find property with name or id: Since")
}

func TestViewsSayWhereTheyAre(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a25 := a.as("2025-09-03")
	made := a25.ok("POST", "/v1/views", object{"database_id": dbs.Tasks, "data_source_id": a.sourceOf(dbs.Tasks), "name": "All", "type": "table"})
	id := made["id"].(string)
	want := "https://www.notion.so/" + undashed(dbs.Tasks) + "?v=" + undashed(id)
	if got := a25.ok("GET", "/v1/views/"+id, nil); made["url"] != want || got["url"] != want {
		t.Errorf("made at %v, read at %v, want %s", made["url"], got["url"], want)
	}
}
