package notion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/notion/transport/transporttest"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
	"github.com/jomei/notionapi"
)

// must fails the test over an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// need returns a value, or fails the test over the error beside it.
func need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// same compares two values; what says of what they are.
func same(t testing.TB, want, got any, what string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Column{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}

// sent is a request as it left.
type sent struct{ Method, Path, Version, Body string }

// answering returns a client whose server gives one answer, and the last request to it.
func answering(t *testing.T, answer string) (*Client, *sent, *url.Values) {
	t.Helper()
	out, query := new(sent), new(url.Values)
	c, err := New(Options{Token: "ntn_test", Transport: transporttest.Server(func(req *http.Request) (*http.Response, error) {
		*out = sent{req.Method, req.URL.Path, req.Header.Get("Notion-Version"), transporttest.Body(t, req)}
		*query = req.URL.Query()
		if int64(len(out.Body)) != req.ContentLength {
			t.Errorf("Content-Length %d of a body of %d bytes", req.ContentLength, len(out.Body))
		}
		return transporttest.Reply(200, answer), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return c, out, query
}

// The library speaks of databases only, in one version; what leaves is another one.
func TestRequestsLeaveInOneVersion(t *testing.T) {
	const id, page, list, database, source = "2f835e81-2bbb-81b6-9700-e18108a40b1f", `{"object":"page"}`, `{"object":"list","results":[]}`, `{"object":"database"}`, `{"object":"data_source"}`
	type api = *notionapi.Client
	for name, tc := range map[string]struct {
		do     func(context.Context, api) error
		answer string
		into   any
		want   sent
	}{
		"schema": {func(ctx context.Context, c api) error { _, err := c.Database.Get(ctx, id); return err }, source, new(rawSchema), sent{"GET", "/v1/data_sources/" + id, "", ""}},
		"change of a schema": {func(ctx context.Context, c api) error {
			_, err := c.Database.Update(ctx, id, &notionapi.DatabaseUpdateRequest{})
			return err
		}, source, new(rawSchema), sent{"PATCH", "/v1/data_sources/" + id, "", `{}`}},
		"query": {func(ctx context.Context, c api) error {
			_, err := c.Database.Query(ctx, id, &notionapi.DatabaseQueryRequest{PageSize: 1})
			return err
		}, list, new(rawRows), sent{"POST", "/v1/data_sources/" + id + "/query", "", `{"page_size":1}`}},
		"new database": {func(ctx context.Context, c api) error {
			_, err := c.Database.Create(ctx, &notionapi.DatabaseCreateRequest{Parent: notionapi.Parent{Type: "page_id", PageID: id}, Properties: notionapi.PropertyConfigs{"a": newColumn{NewColumn: NewColumn{Type: typeDate}}}})
			return err
		}, database, new(rawSchema), sent{"POST", "/v1/databases", "", `{"initial_data_source":{"properties":{"a":{"date":{}}}},"is_inline":false,"parent":{"page_id":"` + id + `","type":"page_id"},"title":null}`}},
		"new page": {func(ctx context.Context, c api) error {
			_, err := c.Page.Create(ctx, &notionapi.PageCreateRequest{Parent: notionapi.Parent{Type: "database_id", DatabaseID: id}, Properties: notionapi.Properties{"a": text("")}})
			return err
		}, page, new(pageAnswer), sent{"POST", "/v1/pages", "", `{"parent":{"data_source_id":"` + id + `","type":"data_source_id"},"properties":{"a":{"rich_text":[]}}}`}},
		"change of a page": {func(ctx context.Context, c api) error {
			_, err := c.Page.Update(ctx, id, &notionapi.PageUpdateRequest{Properties: notionapi.Properties{"a": text("")}})
			return err
		}, page, new(pageAnswer), sent{"PATCH", "/v1/pages/" + id, "", `{"properties":{"a":{"rich_text":[]}}}`}},
		"into the trash": {func(ctx context.Context, c api) error {
			_, err := c.Page.Update(ctx, id, &notionapi.PageUpdateRequest{Archived: true})
			return err
		}, page, new(pageAnswer), sent{"PATCH", "/v1/pages/" + id, "", `{"in_trash":true}`}},
	} {
		t.Run(name, func(t *testing.T) {
			c, out, query := answering(t, tc.answer)
			if _, err := c.call(t.Context(), tc.into, tc.do, "title", "%3BCha", "a%2Bb"); err != nil {
				t.Fatal(err)
			}
			tc.want.Version = "2025-09-03"
			var got, want any
			_, _ = json.Unmarshal([]byte(out.Body), &got), json.Unmarshal([]byte(tc.want.Body), &want)
			same(t, want, got, "body")
			out.Body = tc.want.Body
			same(t, tc.want, *out, "")
			same(t, []string{"title", ";Cha", "a+b"}, (*query)["filter_properties"], "properties")
		})
	}
}

type pageAnswer = rawPage

// meaning is what a property of an answer means.
type meaning struct {
	Text    string
	Value   any
	Moment  time.Time
	Lease   time.Duration
	Key     string
	Related []task.ID
	Ticked  bool
}

func TestPropertiesMeanWhatNotionShows(t *testing.T) {
	prop := func(kind, value string) string {
		return fmt.Sprintf(`{"id":"%%3Ax","type":%q,%q:%s}`, kind, kind, value)
	}
	at := func(s string) time.Time {
		m := need(time.Parse(time.RFC3339, s))(t)
		return m.UTC()
	}
	const other = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	for name, tc := range map[string]struct {
		property string
		want     *meaning // nil if it counts as missing
	}{
		"title":                      {prop("title", `[{"type":"mention","mention":{"type":"hologram"},"plain_text":"a","href":null},{"plain_text":"b"}]`), &meaning{Text: "ab", Value: "ab"}},
		"empty text":                 {prop("rich_text", `[]`), &meaning{}},
		"number":                     {prop("number", `12.5`), &meaning{Value: 12.5, Lease: 12*time.Minute + 30*time.Second}},
		"no number":                  {prop("number", `null`), &meaning{}},
		"checkbox":                   {prop("checkbox", `true`), &meaning{Value: true, Ticked: true}},
		"checkbox without a value":   {prop("checkbox", `null`), nil},
		"select":                     {prop("select", `{"id":"1","name":"High","color":"octarine"}`), &meaning{Text: "High", Value: "High"}},
		"no select":                  {prop("select", `null`), &meaning{}},
		"status":                     {prop("status", `{"id":"1","name":"OPEN","color":"red"}`), &meaning{Text: "OPEN", Value: "OPEN"}},
		"date":                       {prop("date", `{"start":"2026-06-27T17:57:00.000+01:00","end":null,"time_zone":null}`), &meaning{Moment: at("2026-06-27T17:57:00+01:00"), Value: "2026-06-27T17:57:00.000+01:00"}},
		"day":                        {prop("date", `{"start":"2026-06-27","end":"2026-06-28"}`), &meaning{Moment: at("2026-06-27T23:59:00-12:00"), Value: map[string]any{"start": "2026-06-27", "end": "2026-06-28"}}},
		"time without offset":        {prop("date", `{"start":"2026-06-27T17:57:00"}`), &meaning{Moment: at("2026-06-27T17:57:00Z"), Value: "2026-06-27T17:57:00"}},
		"no date":                    {prop("date", `null`), &meaning{}},
		"an invalid date":            {prop("date", `{"start":"someday"}`), &meaning{}},
		"people":                     {prop("people", `[{"object":"user","id":"u","name":"Maria","person":{"email":7}},{"object":"user","id":"v"}]`), &meaning{Value: []any{"Maria", "v"}}},
		"relation":                   {prop("relation", `[{"id":"`+other+`"}]`), &meaning{Related: []task.ID{other}, Value: []any{other}}},
		"unique id":                  {prop("unique_id", `{"prefix":"T","number":7}`), &meaning{Key: "T-7", Value: "T-7"}},
		"unique id without a number": {prop("unique_id", `{"prefix":"T","number":null}`), &meaning{}},
		"place":                      {prop("place", `{"lat":1,"name":"Lab"}`), &meaning{Value: "Lab"}},
		"place without a value":      {prop("place", `null`), &meaning{}},
		"button":                     {prop("button", `{}`), &meaning{}},
		"unsupported":                {prop("unsupported", `{}`), &meaning{}},
		"verification":               {prop("verification", `{"state":"unverified"}`), &meaning{Value: "unverified"}},
		"formula":                    {prop("formula", `{"type":"unsupported","unsupported":{}}`), &meaning{}},
		"rollup":                     {prop("rollup", `{"type":"array","array":[{"type":"place","place":null},{"type":"number","number":3}]}`), &meaning{Value: []any{3.0}}},
		"formula of a text":          {prop("formula", `{"type":"string","string":"x"}`), &meaning{Value: "x"}},
		"formula of no text":         {prop("formula", `{"type":"string","string":null}`), &meaning{}},
		"formula of a number":        {prop("formula", `{"type":"number","number":1.5}`), &meaning{Value: 1.5}},
		"formula of a bool":          {prop("formula", `{"type":"boolean","boolean":false}`), &meaning{Value: false}},
		"formula of a date":          {prop("formula", `{"type":"date","date":{"start":"2026-03-01","end":null}}`), &meaning{Value: "2026-03-01"}},
		"sum":                        {prop("rollup", `{"type":"number","number":7,"function":"sum"}`), &meaning{Value: 7.0}},
		"latest":                     {prop("rollup", `{"type":"date","date":{"start":"2026-03-01"},"function":"latest_date"}`), &meaning{Value: "2026-03-01"}},
		"array":                      {prop("rollup", `{"type":"array","array":[{"type":"number","number":1},{"type":"number","number":null},{"type":"multi_select","multi_select":[{"name":"a"},{"name":"b"}]},{"type":"title","title":[{"plain_text":"c"}]}]}`), &meaning{Value: []any{1.0, "a", "b", "c"}}},
		"unfinished":                 {prop("rollup", `{"type":"incomplete","incomplete":{}}`), &meaning{}},
		"maker":                      {prop("created_by", `{"object":"user","id":"u","name":"Anna"}`), &meaning{Value: "Anna"}},
		"files":                      {prop("files", `[{"name":"a.pdf","type":"file","file":{"url":"https://s3.example/1","expiry_time":"2026-03-01T00:00:00Z"}}]`), &meaning{Value: []any{"a.pdf"}}},
		"control":                    {prop("url", `"a\u001b[31mb"`), &meaning{Value: "ab"}},
		"phone":                      {prop("phone_number", `"112"`), &meaning{Value: "112"}},
		"no status":                  {prop("status", `null`), &meaning{}},
		"new":                        {prop("hologram", `{"depth":3}`), &meaning{}},
		"checkbox of a text":         {prop("checkbox", `"yes"`), nil},
		"odd end":                    {prop("date", `{"start":"2026-03-01","end":"soon"}`), &meaning{Moment: at("2026-03-01T23:59:00-12:00"), Value: "2026-03-01"}},
		"large":                      {prop("number", `1e300`), &meaning{Value: 1e300}},
		"files of another form":      {prop("files", `7`), &meaning{}},
		"without a type":             {`{"id":"%3Ax"}`, &meaning{}},
		"without an id":              {`{"type":"number","number":1}`, nil},
		"no object":                  {`null`, nil},
		"of another form":            {prop("select", `["High"]`), nil},
	} {
		var shown rawPage
		must(t, json.Unmarshal([]byte(`{"object":"page","icon":{"type":"custom_emoji","custom_emoji":7},"cover":"?","created_by":7,"properties":{"P":`+tc.property+`}}`), &shown))
		var got *meaning
		if p := shown.Properties["%3Ax"]; p != nil {
			got = &meaning{p.text(), p.value(), p.moment(), p.lease(), p.key(), p.related(), p.ticked()}
		}
		same(t, tc.want, got, "%s", name)
	}
}

func TestAnswersOfAnotherForm(t *testing.T) {
	for _, state := range []string{"archived", "in_trash", "is_archived"} {
		c, _, _ := answering(t, fmt.Sprintf(`{"object":"page","id":"p1",%q:true}`, state))
		if shown, err := c.page(t.Context(), "p1"); err != nil || !shown.trashed() {
			t.Errorf("a page that is %s does not show it: %+v, %v", state, shown, err)
		}
	}
	for _, answer := range []string{`[]`, `{"object":"page","id":7}`, `{"object":"list","results":[7]}`, `{"object":"database","properties":[]}`} {
		c, _, _ := answering(t, answer)
		_, _, err := c.updatePage(t.Context(), "p1", &notionapi.PageUpdateRequest{})
		failed, isFailed := errors.AsType[*transport.SendError](err)
		if !isFailed || failed.Landed != claim.LandedUnknown {
			t.Errorf("%s: err = %v, want one that leaves open whether the write landed", answer, err)
		}
	}
	for _, answer := range []string{`{"object":"list"}`, `{"object":"list","results":null}`, `{"object":"page","results":[]}`} {
		c, _, _ := answering(t, answer)
		if _, _, err := c.query(t.Context(), "s1", &notionapi.DatabaseQueryRequest{}); err == nil {
			t.Errorf("%s passes for an empty list", answer)
		}
	}
	c, _, _ := answering(t, `{"object":"data_source","title":[{"plain_text":"Tasks"}],"in_trash":true,"properties":{
		"S":{"id":"a","name":"S","type":"status","status":{"options":[{"id":"o","name":"OPEN"},{"name":"DONE"}],"groups":[]}},
		"R":{"id":"b","name":"R","type":"relation","relation":{"database_id":"d1","data_source_id":"2f835e81-2bbb-81b6-9700-e18108a40b1f","type":"single_property","single_property":{}}},
		"P":{"id":"c","name":"P","type":"place","place":{}},"B":{"id":"d","name":"B","type":"button"},"?":{"name":"?"}}}`)
	db, trashed, err := c.schema(t.Context(), "d1", "s1", func(ctx context.Context, api *notionapi.Client) error {
		_, err := api.Database.Get(ctx, "s1")
		return err
	})
	if must(t, err); !trashed {
		t.Error("the database does not show that it is in the trash")
	}
	same(t, Database{ID: "d1", Source: "s1", Title: "Tasks", Columns: map[string]Column{
		"S": {ID: "a", Name: "S", Type: "status", Options: []string{"OPEN", "DONE"}, OptionIDs: map[string]string{"OPEN": "o"}},
		"R": {ID: "b", Name: "R", Type: "relation", Source: "2f835e81-2bbb-81b6-9700-e18108a40b1f"},
		"P": {ID: "c", Name: "P", Type: "place"}, "B": {ID: "d", Name: "B", Type: "button"}, "?": {Name: "?"},
	}}, db, "schema")
}

func TestStoreErrors(t *testing.T) {
	// answered is the error of an answer, as the transport makes it.
	answered := func(status int, body string) error {
		carrier := need(transport.New(transport.Options{Transport: transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(status, body, "Retry-After", "5"), nil
		})}))(t)
		_, err := carrier.RoundTrip(transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, "{}"))
		return err
	}
	said := func(status int, code, message string, data map[string]any) error {
		return answered(status, transporttest.Failure(code, message, data))
	}
	for _, tc := range []struct {
		name   string
		err    error
		kind   claim.StoreErrorKind
		landed claim.Landed
		advice string
	}{
		{"token", said(401, "unauthorized", "API token is invalid.", nil), claim.Refused, claim.LandedNo, "check notion.token"},
		{"restricted", said(403, "restricted_resource", "no", nil), claim.Refused, claim.LandedNo, "capabilities"},
		{"the edge", answered(403, "<html>"), claim.Unavailable, claim.LandedNo, "try from another network"},
		{"linked", said(400, "validation_error", "Database retrievals do not support linked databases.", nil), claim.Refused, claim.LandedNo, "a linked view of another database"},
		{"a page's id", said(400, "validation_error", "Provided ID x is a page, not a database.", nil), claim.Refused, claim.LandedNo, "the id of something else"},
		{"no blocks", said(403, "restricted_resource", "no", map[string]any{"block_limit": "block_creation"}), claim.Refused, claim.LandedNo, "no blocks left"},
		{"not shared", said(404, "object_not_found", "Could not find page", nil), claim.NotFound, claim.LandedNo, "share the database with the connection"},
		{"validation", said(400, "validation_error", "Colour is not a property that exists.", nil), claim.Refused, claim.LandedNo, "Colour"},
		{"an archived property", said(400, "validation_error", "archived is not a property that exists.", nil), claim.Refused, claim.LandedNo, ""},
		{"trashed", said(400, "validation_error", "Can't edit block that is archived. You must unarchive the block before editing.", nil), claim.Trashed, claim.LandedNo, ""},
		{"trashed, other words", said(400, "validation_error", "Can't edit page that is in the trash.", nil), claim.Trashed, claim.LandedNo, ""},
		{"conflict", said(409, "conflict_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"rate limit", said(429, "rate_limited", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"blocked", said(429, "rate_limited", "no", map[string]any{"rate_limit_reason": "public_api_request_blocked"}), claim.Refused, claim.LandedNo, "blocked this connection"},
		{"server error", said(500, "internal_server_error", "no", nil), claim.Unavailable, claim.LandedUnknown, ""},
		{"gateway", answered(502, "<html>"), claim.Unavailable, claim.LandedUnknown, ""},
		{"overload", said(529, "service_overload", "no", nil), claim.Unavailable, claim.LandedNo, ""},
		{"redirect", said(301, "", "no", nil), claim.Refused, claim.LandedNo, "check notion.base_url"},
		{"not Notion", answered(200, "<html>"), claim.Unavailable, claim.LandedUnknown, "check notion.base_url"},
		{"no answer", &transport.SendError{Method: "PATCH", Server: "api.notion.com", Path: transporttest.PagePath, Landed: claim.LandedUnknown, RetryAfter: 5 * time.Second, Err: errors.New("cut")}, claim.Unavailable, claim.LandedUnknown, ""},
	} {
		got := storeError(tc.err)
		if got.Kind != tc.kind || got.Landed != tc.landed || got.RetryAfter != 5*time.Second || !errors.Is(got, tc.err) {
			t.Errorf("%s: kind %d, landed %s, retry after %s, of %v; want kind %d, landed %s, 5s", tc.name, got.Kind, got.Landed, got.RetryAfter, errors.Unwrap(got), tc.kind, tc.landed)
		}
		if !strings.Contains(got.Error(), tc.advice) || !strings.Contains(got.Error(), "PATCH api.notion.com"+transporttest.PagePath) {
			t.Errorf("%s: says %q, want the request and %q", tc.name, got, tc.advice)
		}
	}
}

// What pages showed is remembered for long enough, and no longer than that.
func TestLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lately[task.ID, int]
		most := 0
		for i := range 10_000 { // one a minute
			id := task.ID(fmt.Sprint(i))
			l.put(id, i)
			for _, age := range []int{0, 1, int(memory/time.Minute) - 1} {
				if before := i - age; before >= 0 {
					if v, ok := l.get(task.ID(fmt.Sprint(before))); !ok || v != before {
						t.Fatalf("after %d minutes: %d, %v; want %d", age, v, ok, before)
					}
				}
			}
			most = max(most, len(l.of))
			time.Sleep(time.Minute)
		}
		if most > 300 {
			t.Errorf("%d pages were remembered at a time", most)
		}
		l.put("x", 1)
		l.forget("x")
		if _, ok := l.get("x"); ok {
			t.Error("what was forgotten is still there")
		}
	})
}

// secret is a token that a server repeats.
const secret = "ntn_0123456789abcdefghijklmnopqrstuv"

// FuzzFailure reads answers that are failures. There is always an error of the
// store that says so in one line, without the token, and tells what may have
// become of a write.
func FuzzFailure(f *testing.F) {
	saved := map[string]any{"retry_guidance": []any{"The change was saved."}, "committed_resource_id": "x"}
	f.Add(401, transporttest.Failure("unauthorized", "API token is invalid.", nil), "", "", "")
	f.Add(400, transporttest.Failure("validation_error", "body failed validation.\nFix one:\n\tbody.x\u2028", nil), "", "", "")
	f.Add(400, transporttest.Failure("validation_error", "Can't edit block that is archived. You must unarchive the block before editing.", nil), "", "", "")
	f.Add(404, transporttest.Failure("object_not_found", "Could not find page with ID: "+secret, nil), "", "", "")
	f.Add(404, strings.Replace(transporttest.Failure("object_not_found", "For "+secret, nil), "ntn_", `\u006e\u0074n_`, 1), "", "", "")
	f.Add(409, transporttest.Failure("conflict_error", "Conflict occurred while saving. Please try again.", nil), "", "", "")
	f.Add(429, transporttest.Failure("rate_limited", "slow", map[string]any{"rate_limit_reason": "public_api_request_blocked", "retry_after": "7"}), "30", "", "")
	f.Add(529, transporttest.Failure("service_overload", "slow", nil), "Fri, 20 Nov 2026 08:01:30 GMT", "Fri, 20 Nov 2026 08:00:00 GMT", "")
	f.Add(503, transporttest.Failure("service_unavailable", "saved", saved), "-1e400", "x", "")
	f.Add(503, `{"object":"error","code":"a\nb","message":"m","request_id":"r\r\nr","additional_data":{"retry_guidance":[null,{}]}}`, "NaN", "", "a121da037c3863ed-LHR")
	f.Add(502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>", "", "", "a121da037c3863ed-LHR")
	f.Add(502, "", "", "", secret)
	f.Add(200, "Bearer "+secret, "1", "", "")
	f.Add(301, `{"object":"error"}`, "", "", "")
	f.Fuzz(func(t *testing.T, status int, body, after, date, ray string) {
		if status < 200 || status > 599 {
			return // what net/http does not take for an answer, or not for the last one
		}
		server := transporttest.Server(func(*http.Request) (*http.Response, error) {
			return transporttest.Reply(status, body, "Retry-After", after, "Date", date, "Cf-Ray", ray, "X-Notion-Request-Id", ray), nil
		})
		req := transporttest.Request(t, t.Context(), http.MethodPatch, transporttest.PagePath, `{"properties":{}}`)
		carrier := need(transport.New(transport.Options{Token: secret, Transport: server}))(t)
		_, err := carrier.RoundTrip(req)
		if err == nil {
			if status != http.StatusOK || !json.Valid([]byte(body)) {
				t.Fatalf("status %d and body %q pass for a good answer", status, body)
			}
			return
		}
		failed := storeError(err)
		oneShortLine(t, failed)
		if strings.Contains(failed.Error(), secret) {
			t.Errorf("the error has the token: %s", failed)
		}
		if failed.RetryAfter < 0 || failed.RetryAfter > 15*time.Minute {
			t.Errorf("retry after %v", failed.RetryAfter)
		}
		refused := status == 529 || status >= 300 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict
		switch failed.Landed {
		case claim.LandedYes:
			if status < 500 {
				t.Errorf("status %d: landed", status)
			}
		default:
			if (failed.Landed == claim.LandedNo) != refused {
				t.Errorf("status %d: landed %s", status, failed.Landed)
			}
		}
	})
}

// oneShortLine checks an error that goes into logs and onto terminals.
func oneShortLine(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if text == "" || strings.ContainsAny(text, "\n\r\v\f\u0085\u2028\u2029") || utf8.RuneCountInString(text) > 2000 {
		t.Errorf("not a line of bearable length: %q", text)
	}
}
