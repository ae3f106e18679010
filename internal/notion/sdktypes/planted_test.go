package sdktypes_test

import (
	"slices"
	"testing"

	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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
