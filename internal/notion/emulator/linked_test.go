package emulator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
