package emulator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	if diff := cmp.Diff([]string{"third", "second", "first"}, a.query(dbs.Tasks, object{})); diff != "" {
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
	if diff := cmp.Diff([]string{"third", "first"}, a.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := at(a.ok("GET", pathPages+"/"+third, nil), "properties", "depends_on", "relation"); len(got.(list)) != 0 {
		t.Errorf("third depends on %v, want nothing", got)
	}
}
