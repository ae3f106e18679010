package emulator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	p, ok := a.e.Page(id)
	if !ok {
		t.Fatal("no page")
	}
	text := map[string]string{}
	for _, name := range []string{"Name", "Text", "Select", "Status", "Multi", "People", "URL", "Email", "Number", "Nothing"} {
		text[name] = p.Text(name)
	}
	want := map[string]string{
		"Name": "Row", "Text": "ab", "Select": "red", "Status": "OPEN", "Multi": "a, b", "People": "Maria, Jonas",
		"URL": "https://example.com", "Email": "", "Number": "", "Nothing": "",
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if p.Select("Select") != "red" || p.Select("Text") != "" || p.Date("Date") != "2026-01-02" || p.Date("Made") != "" {
		t.Errorf("Select %q, Date %q", p.Select("Select"), p.Date("Date"))
	}
	if p.Number("Number") != 7 || p.Number("ID") != 1 || p.Number("Text") != 0 {
		t.Errorf("Number %v, ID %v", p.Number("Number"), p.Number("ID"))
	}
	if p.Value("Check") != true || p.Value("Nothing") != nil {
		t.Errorf("Check %v", p.Value("Check"))
	}
	if diff := cmp.Diff([]string{task}, p.Relation("Relation")); diff != "" {
		t.Errorf("Relation (-want +got):\n%s", diff)
	}

	// A snapshot does not change later.
	if err := a.e.EditPage(id, object{"Number": object{"number": nil}}); err != nil {
		t.Fatal(err)
	}
	if later, _ := a.e.Page(id); p.Number("Number") != 7 || later.Value("Number") != nil {
		t.Errorf("the copy says %v, the page %v", p.Number("Number"), later.Value("Number"))
	}
}
