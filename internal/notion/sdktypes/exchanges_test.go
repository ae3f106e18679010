package sdktypes_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type object = map[string]any

// desk asks an emulator, and records what is asked and answered.
type desk struct {
	*testing.T
	*emulator.Emulator
	transport http.RoundTripper
	names     []string // and the ids that they stand for, in turn
}

// ask asks for something; $name in it stands for an id. name, if not empty, stands for the id of
// the answer from now on.
func (d *desk) ask(status int, name, method, path, body string) object {
	d.Helper()
	filled := strings.NewReplacer(d.names...)
	req, err := http.NewRequestWithContext(d.Context(), method, "https://api.notion.com/v1/"+filled.Replace(path), strings.NewReader(filled.Replace(body)))
	d.must(err)
	req.Header.Set("Authorization", "Bearer "+d.Token())
	req.Header.Set("Notion-Version", "2025-09-03")
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.transport.RoundTrip(req)
	d.must(err)
	answer, err := io.ReadAll(resp.Body)
	d.must(err)
	var said object
	d.must(json.Unmarshal(answer, &said))
	if resp.StatusCode != status {
		d.Fatalf("%s %s: %s", method, path, answer)
	}
	if id, ok := said["id"].(string); ok && name != "" {
		d.names = append(d.names, "$"+name, id)
	}
	return said
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// span is rich text with everything that it can have.
const (
	plain   = `[{"text":{"content":"Hello"}}]`
	colored = `[{"type":"text","text":{"content":"Hello","link":{"url":"https://example.com"}},"annotations":{"bold":true,"color":"red"}},
		{"type":"equation","equation":{"expression":"x"}}]`
	mentions = `[{"type":"mention","mention":{"type":"user","user":{"id":"$maria"}}},{"mention":{"page":{"id":"$tasks-row"}}},
		{"mention":{"date":{"start":"2026-06-27"}}}]`
)

// properties is a schema of all types that the API makes.
const properties = `{"Name":{"title":{}},"Text":{"rich_text":{}},"Number":{"number":{"format":"dollar"}},
	"Select":{"select":{"options":[{"name":"red","color":"red"},{"name":"blue"}]}},
	"Multi":{"multi_select":{"options":[{"name":"a"},{"name":"b"}]}},
	"Status":{"status":{"options":[{"name":"OPEN"},{"name":"DONE","group":"Complete"}]}},
	"Date":{"date":{}},"People":{"people":{}},"Files":{"files":{}},"Check":{"checkbox":{}},"URL":{"url":{}},
	"Email":{"email":{}},"Phone":{"phone_number":{}},
	"One":{"relation":{"data_source_id":"$tasks","single_property":{}}},"Both":{"relation":{"data_source_id":"$tasks","dual_property":{}}},
	"Formula":{"formula":{"expression":"1"}},
	"Rollup":{"rollup":{"function":"count","relation_property_name":"One","rollup_property_name":"Name"}},
	"Made":{"created_time":{}},"Maker":{"created_by":{}},"Edited":{"last_edited_time":{}},"Editor":{"last_edited_by":{}},
	"ID":{"unique_id":{"prefix":"ROW"}}}`

// values are values of all types that can be written.
const values = `{"Name":{"title":` + plain + `},"Text":{"rich_text":` + colored + `},"Number":{"number":5},"Select":{"select":{"name":"red"}},
	"Multi":{"multi_select":[{"name":"a"}]},"Status":{"status":{"name":"DONE"}},"Date":{"date":{"start":"2026-06-27T18:01:15+00:00"}},
	"People":{"people":[{"id":"$maria"}]},"Files":{"files":[{"name":"f","external":{"url":"https://example.com/f"}}]},"Check":{"checkbox":true},
	"URL":{"url":"https://example.com"},"Email":{"email":"a@example.com"},"Phone":{"phone_number":"1"},"One":{"relation":[{"id":"$tasks-row"}]}}`

// blocks are blocks of the types with text, and a few others.
const blocks = `[{"object":"block","type":"paragraph","paragraph":{"rich_text":` + plain + `}},{"heading_1":{"rich_text":` + plain + `}},
	{"heading_2":{"rich_text":` + plain + `}},{"heading_3":{"rich_text":` + plain + `}},
	{"bulleted_list_item":{"rich_text":` + plain + `,"children":[{"paragraph":{"rich_text":[]}}]}},{"numbered_list_item":{"rich_text":[]}},
	{"to_do":{"rich_text":[],"checked":true}},{"toggle":{"rich_text":[]}},{"quote":{"rich_text":[]}},{"callout":{"rich_text":[]}},
	{"code":{"rich_text":` + plain + `,"language":"go"}},{"divider":{}},{"bookmark":{"url":"https://example.com"}}]`

// exchanges asks for everything that the emulator answers, and returns that.
func exchanges(t *testing.T) []sdktypes.Exchange {
	t.Helper()
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var recorder sdktypes.Recorder
	d := &desk{T: t, Emulator: e, transport: recorder.Over(e.Client().Transport)}
	dbs, err := e.Seed("demo")
	d.must(err)
	maria, err := e.AddPerson("Maria", "maria@example.com")
	d.must(err)
	d.names = []string{"$maria", maria, "$tasks-row", e.Pages(dbs.Tasks)[0].ID, "$tasks-db", dbs.Tasks}
	source := d.ask(200, "", "GET", "databases/$tasks-db", "")["data_sources"].([]any)[0].(object)["id"].(string)
	home := d.ask(200, "", "GET", "databases/$tasks-db", "")["parent"].(object)["page_id"].(string)
	d.names = append(d.names, "$tasks", source, "$home", home)

	made := d.ask(200, "db", "POST", "databases", `{"parent":{"type":"page_id","page_id":"$home"},"title":`+plain+`,"initial_data_source":{"properties":`+properties+`}}`)
	d.names = append(d.names, "$source", made["data_sources"].([]any)[0].(object)["id"].(string))
	d.must(e.EditSchema(dbs.Tasks, object{"Verified": object{"verification": object{}}, "Button": object{"button": object{}}, "Place": object{"place": object{}}}))
	for _, step := range []struct {
		status                   int
		name, method, path, body string
	}{
		{200, "", "PATCH", "databases/$db", `{"title":` + colored + `,"description":` + plain + `,"is_inline":true,"icon":{"type":"emoji","emoji":"🚀"}}`},
		{200, "", "GET", "data_sources/$source", ""},
		{200, "", "GET", "data_sources/$tasks", ""},
		{200, "", "PATCH", "data_sources/$source", `{"title":` + plain + `,"properties":{"Extra":{"number":{}},"Phone":null,"Text":{"name":"Words"},
			"Select":{"select":{"options":[{"name":"red"},{"name":"green","color":"green"}]}},"Status":{"status":{"options":[{"name":"OPEN"},{"name":"DONE"},{"name":"HELD","group":"In progress"}]}},
			"Last":{"rollup":{"function":"latest_date","relation_property_name":"One","rollup_property_name":"claimed_at"}}}}`},
		{200, "", "PATCH", "data_sources/$source", `{"properties":{"Words":{"name":"Text"},"Phone":{"phone_number":{}}}}`},
		{200, "second", "POST", "data_sources", `{"parent":{"type":"database_id","database_id":"$db"},"title":` + plain + `,"properties":{"Name":{"title":{}}}}`},
		{200, "row", "POST", "pages", `{"parent":{"type":"data_source_id","data_source_id":"$source"},"properties":` + values + `,"children":` + blocks + `}`},
		{200, "empty", "POST", "pages", `{"parent":{"data_source_id":"$source"},"properties":{"Name":{"title":[]}}}`},
		{200, "written", "POST", "pages", `{"parent":{"page_id":"$home"},"properties":{"title":{"title":` + plain + `}},"markdown":"# One\n- [ ] two\n"}`},
		{200, "", "GET", "pages/$row", ""},
		{200, "", "GET", "pages/$row?filter_properties=title", ""},
		{200, "", "GET", "pages/$tasks-row?filter_properties=title&filter_properties=Place", ""},
		{200, "", "PATCH", "pages/$row", `{"properties":{"Name":{"title":` + colored + `},"Select":{"select":null},"Date":{"date":{"start":"2026-06-27","end":"2026-06-28"}},"Number":{"number":null},"Text":{"rich_text":[]}}}`},
		{200, "", "PATCH", "pages/$empty", `{"archived":true}`},
		{200, "", "PATCH", "pages/$empty", `{"in_trash":false,"icon":{"type":"emoji","emoji":"🚀"}}`},
		{200, "", "GET", "pages/$row/properties/title", ""},
		{200, "", "GET", "pages/$row/properties/One?page_size=100", ""},
		{200, "", "GET", "pages/$row/properties/Number", ""},
		{200, "", "GET", "pages/$row/properties/People", ""},
		{200, "", "GET", "pages/$row/markdown", ""},
		{200, "", "POST", "data_sources/$source/query", `{}`},
		{200, "", "POST", "data_sources/$source/query?filter_properties=title", `{"page_size":1,"filter":{"property":"Number","number":{"is_empty":true}},"sorts":[{"timestamp":"last_edited_time","direction":"ascending"}]}`},
		{200, "", "POST", "data_sources/$tasks/query", `{"filter":{"or":[{"and":[{"property":"status","status":{"equals":"OPEN"}},{"timestamp":"last_edited_time","last_edited_time":{"on_or_after":"2026-06-27"}}]},
			{"property":"status","status":{"does_not_equal":"OPEN"}}]},"sorts":[{"property":"Name","direction":"descending"}],"page_size":2}`},
		{200, "", "GET", "blocks/$row", ""},
		{200, "", "GET", "blocks/$row/children?page_size=100", ""},
		{200, "", "PATCH", "blocks/$row/children", `{"children":` + blocks + `}`},
		{200, "", "POST", "comments", `{"parent":{"page_id":"$row"},"rich_text":` + plain + `,"display_name":{"type":"custom","custom":{"name":"Sandman"}}}`},
		{200, "", "POST", "comments", `{"parent":{"page_id":"$row"},"markdown":"Hello"}`},
		{200, "", "GET", "comments?block_id=$row&page_size=100", ""},
		{200, "view", "POST", "views", `{"database_id":"$db","data_source_id":"$source","name":"Board","type":"board","configuration":{"type":"board",
			"group_by":{"type":"status","property_id":"Status","group_by":"option","sort":{"type":"manual"}}}}`},
		{200, "", "GET", "views?database_id=$db", ""},
		{200, "", "GET", "views/$view", ""},
		{200, "", "POST", "search", `{"query":"","filter":{"property":"object","value":"data_source"},"sort":{"timestamp":"last_edited_time","direction":"descending"},"page_size":2}`},
		{200, "", "POST", "search", `{"query":"e","filter":{"property":"object","value":"page"},"page_size":2}`},
		{200, "", "GET", "users/me", ""},
		{200, "", "GET", "users/$maria", ""},
		{200, "", "GET", "users?page_size=100", ""},
		{404, "", "GET", "pages/00000000-0000-4000-8000-000000000000", ""},
		{400, "", "POST", "data_sources/$source/query", `{"filter":{"property":"Colour","select":{"equals":"red"}}}`},
		{200, "", "PATCH", "pages/$row", `{"properties":{"Text":{"rich_text":` + mentions + `}}}`},
	} {
		d.ask(step.status, step.name, step.method, step.path, step.body)
	}
	return recorder.Exchanges()
}

// planted are exchanges with mistakes, and how these are said.
var planted = []struct {
	method, url, body string
	status            int
	answer            string
	want              []string
}{
	{"POST", "/v1/data_sources/1/query?filter_properties=a&filter_properties=b", `{"page_size":100}`, 0, "", nil},
	{"POST", "/v1/data_sources/1/query", `{"filter":{"or":[{"and":[{"property":"a","select":{"equal":"x"}}]}]}}`, 0, "", []string{
		"request body .filter.or[0].and[0].select.equal: unknown key", "request body .filter.or[0].and[0].select.is_empty: missing key",
	}},
	{"POST", "/v1/data_sources/1/query?in_trash=true", `{"filter_properties":["a"]}`, 0, "", []string{
		"query .in_trash: unknown key", "request body .filter_properties: does not belong here",
	}},
	{"GET", "/v1/users?page_size=many", "", 0, "", []string{`query .page_size: "many" is not number`}},
	{"GET", "/v1/comments", "", 0, "", []string{"query .block_id: missing key"}},
	{"PATCH", "/v1/pages/1", `{"archived":"true"}`, 0, "", []string{`request body .archived: "true" is not boolean`}},
	{"PATCH", "/v1/pages/1", `[]`, 0, "", []string{"request body: is not an object"}},
	{"PATCH", "/v1/pages/1", `{`, 0, "", []string{"request body: SyntaxError: Expected property name or '}' in JSON at position 1 (line 1 column 2)"}},
	{"PATCH", "/v1/data_sources/1", `{"properties":{"a":{"relation":{"database_id":"1","single_property":{}}}}}`, 0, "", []string{
		"request body .properties.a.relation.database_id: unknown key", "request body .properties.a.relation.data_source_id: missing key",
	}},
	{"PATCH", "/v1/databases/1", `{"properties":{}}`, 0, "", []string{"request body .properties: unknown key"}},
	{"POST", "/v1/databases/1/query", `{}`, 0, "", []string{"unknown endpoint"}},
	{"DELETE", "/v1/blocks/1", "", 200, `{"object":"block","id":"1"}`, nil}, // the partial type
	{"GET", "/v1/users/1", "", 200, `{"object":"user","id":"1","type":"person"}`, []string{
		"answer 200 .name: missing key", "answer 200 .avatar_url: missing key", "answer 200 .person: missing key",
	}},
	{"GET", "/v1/users/me", "", 502, "<html>", []string{`answer: SyntaxError: Unexpected token '<', "<html>" is not valid JSON`}},
	{"GET", "/v1/users/me", "", 429, `{"object":"error","status":"429","code":"rate_limited","message":"x"}`, []string{`answer 429 .status: "429" is not number`}},
}

// What the emulator is asked and answers here is right, and mistakes are found.
func TestPlantedMistakes(t *testing.T) {
	testkit.Long(t)
	testkit.SkipUnderRace(t)
	sdktypes.Clients(t)
	right := exchanges(t)
	all := slices.Clone(right)
	for _, e := range planted {
		all = append(all, sdktypes.Exchange{Method: e.method, URL: e.url, Version: "2025-09-03", Body: e.body, Status: e.status, Type: "application/json", Answer: e.answer})
	}
	found := sdktypes.Judge(t, all).Refusals
	for i, e := range right {
		for _, refusal := range found[i] {
			t.Errorf("%s: %s", e, refusal)
		}
	}
	for i, e := range planted {
		if diff := cmp.Diff(e.want, found[len(right)+i], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s %s %s: -want +got\n%s", e.method, e.url, e.body+e.answer, diff)
		}
	}
}
