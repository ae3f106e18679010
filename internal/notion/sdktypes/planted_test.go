package sdktypes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// words are the keys whose values are one of a few words.
var words = []string{"object", "type", "color", "direction", "function", "timestamp"}

// optional are the keys that an answer may lack: those that the types have so, some of a view alone,
// the exceptions, and the names of properties.
var optional = regexp.MustCompile(`(\.request_id|[^.]\.has_more|\.email|\.additional_data(\.\w+)?|\.relation\.type|\.properties\.[^.]+|^\.(configuration|data_source_id|filter|sorts))$`)

// mistakes plants one mistake after the other in a value: a wrong type, a wrong word, an unknown
// key, and in an answer a missing key. put puts a value in the place of this one.
func mistakes(value any, at string, answer bool, put func(any), plant func(at, rule string)) {
	instead := func(rule string, wrong any) {
		put(wrong)
		plant(at, rule)
		put(value)
	}
	switch v := value.(type) {
	case object:
		instead("a list", []any{})
		v["planted"] = 1
		plant(at, "a key more")
		delete(v, "planted")
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below, at := v[key], at+"."+key
			if answer && !optional.MatchString(at) {
				delete(v, key)
				plant(at, "missing")
				v[key] = below
			}
			mistakes(below, at, answer, func(n any) { v[key] = n }, plant)
		}
	case []any:
		instead("an object", object{"planted": 1})
		for i, below := range v {
			mistakes(below, at+"[]", answer, func(n any) { v[i] = n }, plant)
		}
	case string:
		instead("a number", 5)
		if slices.Contains(words, at[strings.LastIndexByte(at, '.')+1:]) {
			instead("another word", "planted")
		}
	case float64, bool:
		instead("text", fmt.Sprint(v))
	case nil:
		instead("an object", object{"planted": 1})
	}
}

// planted is an exchange with a mistake.
type planted struct {
	sdktypes.Exchange
	what string
}

// plants returns the exchanges with mistakes in what is asked or answered. Deep inside, where
// endpoints are alike, each mistake is planted in one of them.
func plants(t *testing.T, exchanges []sdktypes.Exchange) []planted {
	t.Helper()
	var out []planted
	seen := make(map[string]bool)
	property := regexp.MustCompile(`properties\.[^.]+`)
	ids := regexp.MustCompile(`[0-9a-f-]{36}|\?.*`)
	for _, e := range exchanges {
		for _, side := range []string{"request", "answer"} {
			wrong := e
			body := &wrong.Answer
			if side == "request" {
				body = &wrong.Body
				wrong.Status = 0
			}
			if *body == "" {
				continue
			}
			var value any
			if err := json.Unmarshal([]byte(*body), &value); err != nil {
				t.Fatal(err)
			}
			mistakes(value, "", side == "answer", func(v any) { value = v }, func(at, rule string) {
				where := ids.ReplaceAllString(e.String(), "")
				keys := strings.Split(property.ReplaceAllString(at, "properties.*"), ".")
				class := fmt.Sprint(where, side, keys, rule)
				if len(keys) > 3 {
					class = fmt.Sprint(side, keys[len(keys)-2:], rule)
				}
				if seen[class] {
					return
				}
				seen[class] = true
				data, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				*body = string(data)
				out = append(out, planted{wrong, fmt.Sprintf("%s: %s %s: %s", where, side, at, rule)})
			})
		}
	}
	return out
}

// What is wrong in an exchange, and how it is said.
var told = []struct {
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

// What the emulator is asked and answers here is right, and any mistake in it is found.
func TestPlantedMistakes(t *testing.T) {
	testkit.Long(t)
	testkit.SkipUnderRace(t)
	sdktypes.Clients(t)
	right := exchanges(t)
	wrong := plants(t, right)
	all := slices.Clone(right)
	for _, p := range wrong {
		all = append(all, p.Exchange)
	}
	for _, e := range told {
		all = append(all, sdktypes.Exchange{Method: e.method, URL: e.url, Version: "2025-09-03", Body: e.body, Status: e.status, Type: "application/json", Answer: e.answer})
	}
	found := sdktypes.Judge(t, all).Refusals
	for i, e := range right {
		for _, refusal := range found[i] {
			t.Errorf("%s: %s", e, refusal)
		}
	}
	for i, p := range wrong {
		if len(found[len(right)+i]) == 0 {
			t.Errorf("not found: %s", p.what)
		}
	}
	if len(wrong) < 1000 {
		t.Errorf("planted %d mistakes", len(wrong))
	}
	for i, e := range told {
		if diff := cmp.Diff(e.want, found[len(right)+len(wrong)+i], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s %s %s: -want +got\n%s", e.method, e.url, e.body+e.answer, diff)
		}
	}
}
