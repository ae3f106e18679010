package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"
	"github.com/jomei/notionapi"

	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
)

// repaired sends a request through repair and returns what arrived and what came back.
func repaired(t *testing.T, ctx context.Context, method, path, body, answer string) (sent *http.Request, sentBody, got string, err error) {
	t.Helper()
	chain := &repair{sources: new(sources), next: transporttest.Server(func(req *http.Request) (*http.Response, error) {
		sent, sentBody = req, transporttest.Body(t, req)
		if int64(len(sentBody)) != req.ContentLength {
			t.Errorf("Content-Length %d of a body of %d bytes", req.ContentLength, len(sentBody))
		}
		return transporttest.Reply(200, answer), nil
	})}
	resp, err := chain.RoundTrip(transporttest.Request(t, ctx, method, path, body))
	if err != nil {
		return sent, sentBody, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != resp.ContentLength {
		t.Errorf("Content-Length %d of an answer of %d bytes", resp.ContentLength, len(data))
	}
	return sent, sentBody, string(data), nil
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestUpdatesDoNotRestore(t *testing.T) {
	for _, tc := range []struct{ method, path, body, want string }{
		{"PATCH", transporttest.PagePath, `{"properties":{"a":{"select":null}},"archived":false}`, `{"properties":{"a":{"select":null}}}`},
		{"PATCH", transporttest.PagePath, `{"archived":true}`, `{"archived":true}`},
		{"POST", "/v1/pages", `{"archived":false}`, `{"archived":false}`},
	} {
		sent, body, _, err := repaired(t, t.Context(), tc.method, tc.path, tc.body, `{"object":"page"}`)
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, body, tc.want)
		again, err := sent.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := io.ReadAll(again); string(data) != body {
			t.Errorf("a second sending would carry %q, want %q", data, body)
		}
	}
}

func TestQueriesAskForTheirPropertiesOnly(t *testing.T) {
	x := exchange{only: []string{"title", "%3BCha", "a%2Bb"}}
	sent, _, _, err := repaired(t, x.in(t.Context()), "POST", transporttest.QueryPath, "{}", `{"object":"list","results":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	query, err := url.ParseQuery(sent.URL.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"title", ";Cha", "a+b"}, query["filter_properties"]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// property is a property's JSON in an answer.
func property(kind, value string) string {
	return fmt.Sprintf(`{"id":"%%3Ax","type":%q,%q:%s}`, kind, kind, value)
}

func TestPagesShowWhatTheLibraryCanRead(t *testing.T) {
	date := func(start string) notionapi.Property {
		at, err := time.Parse(time.RFC3339, start)
		if err != nil {
			t.Fatal(err)
		}
		return &notionapi.DateProperty{ID: "%3Ax", Type: "date", Date: &notionapi.DateObject{Start: new(notionapi.Date(at))}}
	}
	for _, tc := range []struct {
		name     string
		property string
		want     notionapi.Property // nil if it is not passed on
	}{
		{"title", property("title", `[{"type":"mention","mention":{"type":"hologram"},"plain_text":"a","href":null},{"plain_text":"b"}]`), &notionapi.TitleProperty{ID: "%3Ax", Type: "title", Title: []notionapi.RichText{{PlainText: "a"}, {PlainText: "b"}}}},
		{"empty text", property("rich_text", `[]`), &notionapi.RichTextProperty{ID: "%3Ax", Type: "rich_text", RichText: []notionapi.RichText{}}},
		{"number", property("number", `12.5`), &notionapi.NumberProperty{ID: "%3Ax", Type: "number", Number: 12.5}},
		{"no number", property("number", `null`), &notionapi.NumberProperty{ID: "%3Ax", Type: "number"}},
		{"checkbox", property("checkbox", `true`), &notionapi.CheckboxProperty{ID: "%3Ax", Type: "checkbox", Checkbox: true}},
		{"checkbox without a value", property("checkbox", `null`), nil},
		{"select", property("select", `{"id":"1","name":"High","color":"octarine"}`), &notionapi.SelectProperty{ID: "%3Ax", Type: "select", Select: notionapi.Option{Name: "High"}}},
		{"no select", property("select", `null`), &notionapi.SelectProperty{ID: "%3Ax", Type: "select"}},
		{"status", property("status", `{"id":"1","name":"OPEN","color":"red"}`), &notionapi.StatusProperty{ID: "%3Ax", Type: "status", Status: notionapi.Status{Name: "OPEN"}}},
		{"date", property("date", `{"start":"2026-06-27T17:57:00.000+01:00","end":null,"time_zone":null}`), date("2026-06-27T17:57:00+01:00")},
		{"no date", property("date", `null`), &notionapi.DateProperty{ID: "%3Ax", Type: "date"}},
		{"day", property("date", `{"start":"2026-06-27","end":"2026-06-28"}`), date("2026-06-27T23:59:00-12:00")},
		{"time without offset", property("date", `{"start":"2026-06-27T17:57:00"}`), date("2026-06-27T17:57:00Z")},
		{"no date at all", property("date", `{"start":"someday"}`), &notionapi.DateProperty{ID: "%3Ax", Type: "date"}},
		{"people", property("people", `[{"object":"user","id":"u","name":"Maria","person":{"email":7}},{"object":"user","id":"v"}]`), &notionapi.PeopleProperty{ID: "%3Ax", Type: "people", People: []notionapi.User{{ID: "u", Name: "Maria"}, {ID: "v"}}}},
		{"relation", property("relation", `[{"id":"p"}]`), &notionapi.RelationProperty{ID: "%3Ax", Type: "relation", Relation: []notionapi.Relation{{ID: "p"}}}},
		{"unique id", property("unique_id", `{"prefix":"T","number":7}`), &notionapi.UniqueIDProperty{ID: "%3Ax", Type: "unique_id", UniqueID: notionapi.UniqueID{Prefix: new("T"), Number: 7}}},
		{"unique id without a number", property("unique_id", `{"prefix":"T","number":null}`), nil},
		{"place", property("place", `{"lat":1}`), nil},
		{"place without a value", property("place", `null`), nil},
		{"button", property("button", `{}`), nil},
		{"unsupported", property("unsupported", `{}`), nil},
		{"verification", property("verification", `{"state":"unverified"}`), nil},
		{"formula", property("formula", `{"type":"unsupported","unsupported":{}}`), nil},
		{"rollup", property("rollup", `{"type":"array","array":[{"type":"place","place":null}]}`), nil},
		{"without a type", `{"id":"x"}`, nil},
		{"without an id", `{"type":"number","number":1}`, nil},
		{"no object", `null`, nil},
		{"of another form", property("select", `["High"]`), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page := fmt.Sprintf(`{"object":"page","id":"p1","icon":{"type":"custom_emoji","custom_emoji":7},"cover":"?",
				"created_time":"2026-06-27T16:57:00.000Z","last_edited_time":"2026-06-27T16:57:00.000Z","archived":false,"in_trash":false,
				"is_archived":false,"parent":{"type":"database_id","database_id":"d1"},"url":"https://www.notion.so/p1","properties":{"P":%s}}`, tc.property)
			wantPage := `{"object":"page","id":"p1","archived":false,"created_time":"2026-06-27T16:57:00.000Z",
				"last_edited_time":"2026-06-27T16:57:00.000Z","parent":{"type":"database_id","database_id":"d1"},"url":"https://www.notion.so/p1","properties":{}}`
			want := notionapi.Properties{}
			if tc.want != nil {
				want["P"] = tc.want
			}
			var x exchange
			sameProperties := func() {
				t.Helper()
				answer := notionapi.DatabaseQueryResponse{Results: []notionapi.Page{{ID: "p1"}}}
				x.completeAll(&answer)
				moments := cmp.Comparer(func(a, b notionapi.Date) bool { return time.Time(a).Equal(time.Time(b)) })
				if diff := cmp.Diff(want, answer.Results[0].Properties, moments); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			}
			_, _, got, err := repaired(t, x.in(t.Context()), "GET", transporttest.PagePath, "", page)
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, got, wantPage)
			sameProperties()

			x = exchange{}
			_, _, got, err = repaired(t, x.in(t.Context()), "POST", transporttest.QueryPath, "{}", `{"object":"list","type":"page_or_database","page_or_database":{},"results":[`+page+`],"has_more":true,"next_cursor":"c"}`)
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, got, `{"object":"list","results":[`+wantPage+`],"has_more":true,"next_cursor":"c"}`)
			sameProperties()
		})
	}
}

func TestThreeWaysToBeGone(t *testing.T) {
	for _, state := range []string{"archived", "in_trash", "is_archived"} {
		_, _, got, err := repaired(t, t.Context(), "GET", transporttest.PagePath, "", fmt.Sprintf(`{"object":"page","id":"p1",%q:true}`, state))
		if err != nil {
			t.Fatal(err)
		}
		var page struct{ Archived bool }
		if err := json.Unmarshal([]byte(got), &page); err != nil || !page.Archived {
			t.Errorf("a page that is %s does not show it: %s", state, got)
		}
	}
}

func TestWhatTheLibraryHasNoFieldFor(t *testing.T) {
	var x exchange
	_, _, _, err := repaired(t, x.in(t.Context()), "POST", transporttest.QueryPath, "{}", `{"object":"list","results":[
		{"object":"page","id":"p1","properties":{"A":{"id":"%3Ax","type":"relation","relation":[],"has_more":true}}},
		{"object":"page","id":"p2","properties":{"A":{"id":"%3Ax","type":"relation","relation":[],"has_more":false}}}],
		"has_more":false,"next_cursor":null,"request_status":{"type":"incomplete","incomplete_reason":"query_result_limit_reached"}}`)
	if err != nil {
		t.Fatal(err)
	}
	x.properties = nil // TestPagesShowWhatTheLibraryCanRead
	want := exchange{incomplete: "query_result_limit_reached", truncated: map[relation]bool{{"p1", "%3Ax"}: true}}
	if diff := cmp.Diff(want, x, cmp.AllowUnexported(exchange{}, relation{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	x = exchange{}
	_, _, got, err := repaired(t, x.in(t.Context()), "GET", "/v1/databases/d1", "", `{"object":"database","id":"d1","title":[{"plain_text":"Tasks"}],
		"in_trash":true,"created_time":"2026-06-27T16:57:00.123+00:00","properties":{
		"S":{"id":"a","name":"S","type":"status","status":{"options":[{"id":"o","name":"OPEN"},{"name":"DONE"}],"groups":[]}},
		"R":{"id":"b","name":"R","type":"relation","relation":{"database_id":"d1","type":"single_property","single_property":{}}},
		"P":{"id":"c","name":"P","type":"place","place":{}},
		"B":{"id":"d","name":"B","type":"button"},
		"?":{"name":"?"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, `{"object":"database","id":"d1","title":[{"plain_text":"Tasks"}],"archived":true,"in_trash":true,"properties":null,"url":""}`)
	columns := map[string]Column{
		"S": {ID: "a", Name: "S", Type: "status", Options: []string{"OPEN", "DONE"}, OptionIDs: map[string]string{"OPEN": "o"}},
		"R": {ID: "b", Name: "R", Type: "relation", Database: "d1"},
		"P": {ID: "c", Name: "P", Type: "place"},
		"B": {ID: "d", Name: "B", Type: "button"},
		"?": {Name: "?"},
	}
	if diff := cmp.Diff(columns, x.columns); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnswersOfAnotherForm(t *testing.T) {
	for _, answer := range []string{`[]`, `{"object":"page","id":7}`, `{"object":"list","results":[7]}`, `{"object":"database","properties":[]}`} {
		_, _, _, err := repaired(t, t.Context(), "PATCH", transporttest.PagePath, `{}`, answer)
		failed, isFailed := errors.AsType[*transport.SendError](err)
		if !isFailed || failed.Landed != claim.LandedUnknown {
			t.Errorf("%s: err = %v, want one that leaves open whether the write landed", answer, err)
		}
	}
	_, _, got, err := repaired(t, t.Context(), "GET", "/v1/users/me", "", `{"object":"user","id":"u"}`)
	if err != nil || got != `{"object":"user","id":"u"}` {
		t.Errorf("an answer of another kind became %q, %v", got, err)
	}
}
