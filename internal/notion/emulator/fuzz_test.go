package emulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"dibs/internal/notion/emulator"
)

// FuzzFilter queries with a filter. The query succeeds or is refused with a 400, and every row
// matches either the filter or its opposite.
func FuzzFilter(f *testing.F) {
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	dbs, err := e.Seed("demo")
	if err != nil {
		f.Fatal(err)
	}
	db, err := e.CreateDatabase("Everything", everything(dbs.Tasks))
	if err != nil {
		f.Fatal(err)
	}
	task := e.Pages(dbs.Tasks)[0].ID
	var all []string
	for _, properties := range []object{
		{"Name": title("empty")},
		{
			"Name": title("full"), "Text": text("Hello World"), "Number": object{"number": 5}, "Check": object{"checkbox": true},
			"Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
			"Status": object{"status": object{"name": "DOING"}}, "Date": object{"date": object{"start": "2026-06-27T18:01:15+00:00"}},
			"Relation": object{"relation": list{object{"id": task}}}, "URL": object{"url": "https://example.com"},
			"Formula": object{"formula": object{"type": "string", "string": "late"}},
			"Rollup":  object{"rollup": object{"type": "number", "number": 3, "function": "sum"}},
		},
		{
			"Name": title("Straße İ"), "Text": text("hello"), "Number": object{"number": -0.5},
			"Select": object{"select": object{"name": "blue"}}, "Date": object{"date": object{"start": "2026-06-27"}},
		},
	} {
		id, err := e.CreatePage(db, properties)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, id)
	}
	slices.Sort(all)

	for _, filter := range []string{
		`{"property":"Name","title":{"equals":"full"}}`,
		`{"property":"Text","rich_text":{"does_not_contain":"WORLD"}}`,
		`{"property":"Text","rich_text":{"equals":"hello WORLD"}}`,
		`{"property":"Text","rich_text":{"starts_with":"hell"}}`,
		`{"property":"URL","url":{"is_empty":true}}`,
		`{"property":"Number","number":{"does_not_equal":5}}`,
		`{"property":"Number","number":{"greater_than_or_equal_to":-0.5}}`,
		`{"property":"ID","unique_id":{"equals":1}}`,
		`{"property":"Check","checkbox":{"equals":false}}`,
		`{"property":"Select","select":{"equals":"red"}}`,
		`{"property":"Select","select":{"equals":["red","blue"]}}`,
		`{"property":"Status","status":{"does_not_equal":"DOING"}}`,
		`{"property":"Multi","multi_select":{"contains":"a"}}`,
		`{"property":"Relation","relation":{"contains":"` + task + `"}}`,
		`{"property":"Maker","people":{"is_not_empty":true}}`,
		`{"property":"Files","files":{"is_empty":true}}`,
		`{"property":"Date","date":{"is_not_empty":true}}`,
		`{"property":"Date","date":{"on_or_after":"2026-06-27T18:01:15Z"}}`,
		`{"property":"Date","date":{"past_month":{}}}`,
		`{"property":"Formula","formula":{"string":{"equals":"late"}}}`,
		`{"property":"Rollup","rollup":{"number":{"does_not_equal":3}}}`,
		`{"property":"Verified","verification":{"status":"none"}}`,
		`{"timestamp":"created_time","created_time":{"this_week":{}}}`,
		`{"and":[{"property":"Check","checkbox":{"equals":true}},{"or":[{"property":"Status","status":{"equals":"OPEN"}},{"property":"Number","number":{"is_empty":true}}]}]}`,
		`{"or":[]}`, `{}`, `[]`, `null`, `"x"`,
		`{"property":"","title":{"equals":1e999}}`, `{"property":"Name","title":{"equals":"\ud800"}}`,
	} {
		f.Add(filter)
	}
	client := e.Client()
	f.Fuzz(func(t *testing.T, filter string) {
		rows, ok := filtered(t, e, client, db, filter)
		var decoded object
		if !ok || json.Unmarshal([]byte(filter), &decoded) != nil {
			return
		}
		turned, has := opposite(decoded)
		if !has {
			return
		}
		data, err := json.Marshal(turned)
		if err != nil {
			t.Fatal(err)
		}
		others, ok := filtered(t, e, client, db, string(data))
		if !ok {
			return // some values suit only one operator: equals takes a list of options
		}
		if both := slices.Sorted(slices.Values(slices.Concat(rows, others))); !slices.Equal(both, all) {
			t.Errorf("%s takes %v, %s takes %v: together they must take each of %v once", filter, rows, data, others, all)
		}
	})
}

// filtered returns the rows that match a filter in JSON, and false if the filter was properly
// refused.
func filtered(t *testing.T, e *emulator.Emulator, client *http.Client, db, filter string) (rows []string, ok bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"https://api.notion.com/v1/databases/"+db+"/query", strings.NewReader(`{"filter":`+filter+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.Token())
	req.Header.Set("Notion-Version", "2022-06-28")
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	var answer struct {
		Object, Code, Message string
		Results               []struct{ ID string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v in %s", filter, err, body)
	}
	switch {
	case res.StatusCode == http.StatusOK && answer.Object == "list":
		for _, row := range answer.Results {
			rows = append(rows, row.ID)
		}
		return rows, true
	case res.StatusCode == http.StatusBadRequest && answer.Object == "error" && answer.Code != "" && answer.Message != "":
		return nil, false
	}
	t.Errorf("%s: status %d and %s, want rows or a 400", filter, res.StatusCode, body)
	return nil, false
}

// opposites maps operators to their negations.
var opposites = map[string]string{
	"equals": "does_not_equal", "does_not_equal": "equals",
	"contains": "does_not_contain", "does_not_contain": "contains",
	"is_empty": "is_not_empty", "is_not_empty": "is_empty",
}

// opposite returns the negation of a filter, and false if there is none.
func opposite(filter object) (object, bool) {
	for key, turned := range map[string]string{"and": "or", "or": "and"} {
		parts, ok := filter[key].(list)
		if !ok {
			continue
		}
		others := list{}
		for _, part := range parts {
			m, _ := part.(object)
			other, ok := opposite(m)
			if !ok {
				return nil, false
			}
			others = append(others, other)
		}
		// Without members, neither is a condition.
		return object{turned: others}, len(others) > 0
	}
	out := object{}
	for key, value := range filter {
		out[key] = value
		if condition, ok := value.(object); ok {
			if out[key], ok = oppositeCondition(condition); !ok {
				return nil, false
			}
		}
	}
	return out, len(out) > 0
}

// oppositeCondition does the same for a condition, such as {"equals": 1}, or {"number": {"equals":
// 1}} on a formula.
func oppositeCondition(condition object) (object, bool) {
	out := object{}
	for op, value := range condition {
		if inner, ok := value.(object); ok {
			if out[op], ok = oppositeCondition(inner); !ok {
				return nil, false
			}
		} else if turned := opposites[op]; turned != "" {
			out[turned] = value
		} else {
			return nil, false
		}
	}
	return out, len(out) == 1
}
