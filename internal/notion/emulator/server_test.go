package emulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"
	"dibs/internal/testkit"
)

func TestRequestsAreCheckedInOrder(t *testing.T) {
	a := start(t, emulator.Options{Token: "secret"})
	const gone = ` | 404: Could not find %[1]s with ID: $nobody. Make sure the relevant pages and databases are shared with your integration "dibs".`
	a.with("wrong").play(`
POST search { | 400 invalid_json: Error parsing JSON body.
GET users/me | 401 unauthorized: API token is invalid.`)
	a.with("").play(`GET users/me | 401 unauthorized: Authorization header must use the format "Bearer <token>".`)
	a.with("wrong").as("").play(`GET users/me | 401 unauthorized`)
	a.as("").play(`GET users/me | 400 missing_version: Notion-Version header failed validation: Notion-Version header should be defined, instead was ´undefined´.`)
	a.as("2020-01-01").play(`GET users/me | 400`)
	a.play(`
GET nonsense | 400 invalid_request_url: Invalid request URL.
DELETE pages/$nobody | 400 invalid_request_url: Invalid request URL.
GET pages/abc | 400: path failed validation: path.page_id should be a valid uuid, instead was ´"abc"´.
GET pages/$nobody` + fmt.Sprintf(gone, "page") + `
PATCH pages/$nobody {} | 404
GET databases/$nobody` + fmt.Sprintf(gone, "database") + `
GET blocks/$nobody | 404
GET users/$nobody | 404
POST search {"query":"` + strings.Repeat("x", 500*1024) + `"} | 400: body failed validation: body.length should be ≤ ´512000´.
25 POST databases/$nobody/query {} | 400 invalid_request_url
22 GET data_sources/$nobody | 400 invalid_request_url`)
	for _, id := range []string{"12345678-1234-1234-1234-123456789abc", "123456781234123412341234567890ab"} { // a UUID has one of four digits in one place
		a.play(`GET pages/` + id + ` | 400: path failed validation: path.page_id should be a valid uuid, instead was ´"` + id + `"´.`)
	}
	for _, id := range []string{"745e79dd-3e43-40de-9d51-39357c1c428f", "745E79DD3E43F0DE9D5139357C1C428F"} {
		a.play(`GET pages/` + id + ` | 404`)
	}
	for header, says := range map[string]string{
		"Basic YTpi": `must use the format \"Bearer`, "Bearer ": `must use the format \"Bearer`, "Bearer wrong": "token is invalid", "bearer wrong": "token is invalid",
	} {
		r := httptest.NewRequest("GET", "/v1/users/me", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		a.e.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%q: %d %s", header, w.Code, w.Body)
		}
	}
}

func TestAnswersCarryHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, emulator.Options{})
		time.Sleep(90*time.Second + 700*time.Millisecond)
		for _, path := range []string{"/v1/users/me", "/v1/pages/" + nobody} {
			r := a.do("GET", path, nil)
			id := r.header.Get("X-Notion-Request-Id")
			got := []string{r.header.Get("Date"), r.header.Get("Content-Type")}
			same(t, []string{"Sat, 01 Jan 2000 00:01:30 GMT", "application/json; charset=utf-8"}, got, "%s", path)
			if id == "" || id != r.body["request_id"] {
				t.Errorf("%s: x-notion-request-id is %q, request_id %q", path, id, r.body["request_id"])
			}
		}
	})
}

func TestUnsharedDatabasesAreNotThere(t *testing.T) {
	a, dbs := seeded(t, "demo")
	a.names["page"] = a.e.Pages(dbs.Tasks)[0].ID
	a.play(`GET databases/` + strings.ToUpper(undashed(dbs.Tasks)) + ` | id = "$tasks"`) // in any form
	must(t, a.e.Unshare(dbs.Tasks))
	a.play(`
GET databases/$tasks | 404
PATCH databases/$tasks {} | 404
POST databases/$tasks/query {} | 404
GET pages/$page | 404
PATCH pages/$page {} | 404
GET pages/$page/properties/title | 404
GET blocks/$page | 404
GET blocks/$page/children | 404
GET comments?block_id=$page | 404
POST pages {"parent":{"database_id":"$tasks"}} | 404`)
	for _, hit := range a.ok("POST", "/v1/search", object{"page_size": 100})["results"].(list) {
		if at(hit, "id") == dbs.Tasks || at(hit, "parent", "database_id") == dbs.Tasks {
			t.Errorf("the search finds %v", hit)
		}
	}
	if err := a.e.Unshare(nobody); err == nil {
		t.Error("a database that does not exist was unshared")
	}
}

// An emulator can support some versions only.
func TestVersions(t *testing.T) {
	const says = ` | 400: Notion-Version header failed validation: Notion-Version header should be %s, instead was ´"%s"´.`
	for _, c := range []struct {
		spoken []string
		script string
	}{
		{nil, "22 GET users/me\n25 GET users/me\n26 GET users/me"},
		{[]string{"2026-03-11", "2025-09-03"}, "25 GET users/me\n26 GET users/me\n22 GET users/me" + fmt.Sprintf(says, `´"2025-09-03"´ or ´"2026-03-11"´`, "2022-06-28")},
		{[]string{"2025-09-03"}, "25 GET users/me\n22 GET users/me" + fmt.Sprintf(says, `´"2025-09-03"´`, "2022-06-28")},
	} {
		start(t, emulator.Options{Versions: c.spoken}).play(c.script)
	}
	a := start(t, emulator.Options{})
	a.as("2019-01-01").play(`GET users/me` + fmt.Sprintf(says, `´"2022-06-28"´, ´"2025-09-03"´, or ´"2026-03-11"´`, "2019-01-01"))
	must(t, a.e.SetVersions("2026-03-11"))
	a.play(`22 GET users/me | 400`)
	if err := a.e.SetVersions("2026"); err == nil {
		t.Error("a version that there is not was set")
	}
	if _, err := emulator.New(emulator.Options{Versions: []string{"2025"}}); err == nil {
		t.Error("an emulator of no version was made")
	}
}

func TestRateLimitWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, emulator.Options{Limit: 5})
		burst := func(at string) {
			t.Helper()
			for i := range 7 {
				if r := a.do("GET", "/v1/users/me", nil); (r.status == http.StatusOK) != (i < 5) {
					t.Errorf("%s: request %d is answered %d", at, i, r.status)
				}
			}
		}
		limited := func(after string) {
			t.Helper()
			a.play(`GET users/me | 429 | additional_data = {"rate_limit_reason": "public_api_request_rate_limit", "retry_after": "` + after + `"}`)
			if got := a.do("GET", "/v1/users/me", nil).header.Get("Retry-After"); got != after {
				t.Errorf("Retry-After is %s, want %s", got, after)
			}
		}
		for range 3 { // those of others do not count
			a.with("wrong").do("GET", "/v1/users/me", nil)
		}
		need(a.e.Seed("empty"))(t)
		time.Sleep(7 * time.Second) // the window starts with the first request, not with the server
		burst("at first")
		limited("60")
		time.Sleep(20*time.Second + 300*time.Millisecond)
		limited("40")
		time.Sleep(39*time.Second + 699*time.Millisecond)
		limited("1")
		time.Sleep(time.Millisecond)
		burst("in the next window")
		// Windows follow each other without gaps, even unused ones.
		time.Sleep(90 * time.Second)
		burst("150 s after the first")
		time.Sleep(30 * time.Second)
		burst("180 s after the first")
	})
}

// counted counts the bytes read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestStrangers sends a large body without the token: little of it is read, and nothing kept.
func TestStrangers(t *testing.T) {
	e := start(t, emulator.Options{}).e
	for _, path := range []string{"/v1/pages", "/_emulator/faults"} {
		body := &counted{Reader: strings.NewReader(strings.Repeat("[", 8<<20))}
		r := httptest.NewRequest("POST", path, body)
		r.Header.Set("Authorization", "Bearer wrong")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || body.n > 64<<10 {
			t.Errorf("%s: answered %d after %d bytes", path, w.Code, body.n)
		}
	}
	for _, r := range e.Requests() {
		if len(r.Body) > 0 {
			t.Errorf("%d bytes of %s were kept", len(r.Body), r.Path)
		}
	}
}

func TestHostsOfEmulator(t *testing.T) {
	h := emulator.Addressed([]string{"emulator"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:8787": 200, "[::1]:80": 200, "localhost": 200, "LOCALHOST:1": 200, "192.168.0.7:8787": 200, "emulator:8787": 200,
		"rebound.example:8787": 421, "localhost.rebound.example": 421, "": 421,
	} {
		r := httptest.NewRequest("GET", "/v1/users/me", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: answered %d, want %d", host, w.Code, want)
		}
	}
}

// oddities are values of the wrong kind.
var oddities = []any{nil, -1.5, "", "x", true, list{}, list{nil}, object{}, object{"id": nil}}

// With any oddity anywhere, a request succeeds or is refused with a 4xx status, and the server
// still works.
func TestNothingOddBreaksTheServer(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	a, db, dbs := full(t)
	a.names["page"], a.names["task"], a.names["db_source"] = a.row(db, object{"Name": title("Row")}), a.e.Pages(dbs.Tasks)[0].ID, a.sourceOf(db)
	a.play(`
GET users | $maria = results.1.id
PATCH blocks/$page/children {"children":[{"paragraph":{"rich_text":[]}}]} | $block = results.0.id
POST comments {"parent":{"page_id":"$page"},"rich_text":[]} | $discussion = discussion_id
POST databases/$tasks/query {"page_size":1} | $cursor = next_cursor`)
	schema := everything(dbs.Tasks)
	delete(schema, "Strange") // cannot be made
	delete(schema, "Status")
	all := strings.TrimSuffix(string(need(json.Marshal(schema))(t)), "}") // choices follow
	const (
		choices = `"Status":{"type":"status","status":{"options":[{"name":"a","color":"red","id":"1"}],"groups":[{"name":"g","color":"blue","option_ids":["1"]}]}}`
		small   = `{"Name":{"title":{}},"Number":{"number":{"format":"euro"}},"Dual":{"relation":{"%s","type":"dual_property","dual_property":{"synced_property_name":"Back"}}}}`
		said    = `[{"text":{"content":"x"}}]`
		icon    = `{"type":"emoji","emoji":"x"}`
		values  = `{"Name":{"title":[{"text":{"content":"x"}}]},"Text":{"rich_text":[{"text":{"content":"x","link":{"url":"https://example.com"}},"annotations":{"bold":true,"color":"red"}},
	{"mention":{"user":{"id":"$maria"}}},{"mention":{"page":{"id":"$task"}}},{"mention":{"date":{"start":"2026-01-01","end":null,"time_zone":null}}},{"equation":{"expression":"x"}}]},
	"Number":{"number":1},"Select":{"select":{"name":"red"}},"Multi":{"multi_select":[{"name":"a"}]},"Status":{"status":{"name":"OPEN"}},
	"Date":{"date":{"start":"2026-01-01T00:00:00","end":"2026-01-02","time_zone":"Europe/Paris"}},"People":{"people":[{"id":"$maria"}]},"Check":{"checkbox":true},"URL":{"url":"x"},
	"Email":{"email":"x"},"Phone":{"phone_number":"x"},"Relation":{"relation":[{"id":"$task"}]},
	"Files":{"files":[{"name":"f","external":{"url":"x"}},{"name":"g","file":{"url":"x"}}]}}`
		date  = `{"property":"Date","date":{"on_or_after":"2026-01-01"}}`
		query = `{"filter":{"and":[` + date + `,{"property":"Text","rich_text":{"contains":"x"}},{"property":"Number","number":{"less_than":1}},{"property":"Check","checkbox":{"equals":true}},
	{"property":"Select","select":{"equals":["red"]}},{"property":"Multi","multi_select":{"contains":"a"}},{"property":"People","people":{"contains":"$maria"}},
	{"property":"Files","files":{"is_empty":true}},{"property":"Formula","formula":{"string":{"equals":"x"}}},{"property":"Rollup","rollup":{"number":{"equals":1}}},
	{"property":"Verified","verification":{"status":"none"}},{"timestamp":"created_time","created_time":{"past_week":{}}},{"or":[` + date + `]}]},
	"sorts":[{"property":"Name","direction":"ascending"},{"timestamp":"created_time","direction":"ascending"}],"page_size":10,"start_cursor":"$cursor","archived":false}`
		blocks = `[{"paragraph":{"rich_text":[],"color":"red","children":[{"divider":{}}]},"children":[{"paragraph":{"rich_text":[]}}]}]`
	)
	small25 := fmt.Sprintf(small, `data_source_id":"$source`)
	for _, c := range [][3]string{ // a version's last year, method and path, body
		{"22", "POST pages", `{"parent":{"database_id":"$db"},"properties":` + values + `,"children":` + blocks + `,"icon":` + icon + `,"cover":null}`},
		{"25", "POST pages", `{"parent":{"data_source_id":"$db_source","page_id":"$task","workspace":false}}`},
		{"22", "PATCH pages/$page", `{"properties":` + values + `,"archived":false,"in_trash":false,"is_archived":false,"icon":` + icon + `,"cover":null}`},
		{"22", "POST databases/$db/query", query},
		{"25", "POST data_sources/$db_source/query", query},
		{"22", "POST databases", `{"parent":{"page_id":"$page"},"title":` + said + `,"description":` + said + `,"properties":` + all + `,` + choices + `},"is_inline":true,"icon":` + icon + `}`},
		{"25", "POST databases", `{"parent":{"type":"page_id","page_id":"$page"},"initial_data_source":{"properties":` + small25 + `}}`},
		{"22", "POST databases", `{"parent":{"page_id":"$page"},"properties":` + fmt.Sprintf(small, `database_id":"$tasks`) + `}`},
		{"22", "PATCH databases/$db", `{"title":` + said + `,"properties":{` + choices + `,"Select":{"select":{"options":[{"name":"red","color":"red"}]}}},"archived":false}`},
		{"25", "POST data_sources", `{"parent":{"database_id":"$db"},"title":` + said + `,"properties":` + small25 + `}`},
		{"25", "PATCH data_sources/$db_source", `{"title":` + said + `,"properties":{"New":{"name":"New","number":{"format":"euro"}}},"in_trash":false}`},
		{"22", "PATCH blocks/$page/children", `{"children":` + blocks + `,"after":"$block","position":{"type":"after_block","after_block":{"id":"$block"}}}`},
		{"22", "POST comments", `{"parent":{"page_id":"$page","block_id":"$block"},"rich_text":` + said + `}`},
		{"22", "POST comments", `{"discussion_id":"$discussion","rich_text":` + said + `}`},
		{"22", "POST search", `{"query":"x","filter":{"property":"object","value":"page"},"sort":{"timestamp":"last_edited_time","direction":"ascending"},"page_size":1}`},
	} {
		version := versions[slices.Index([]string{"22", "25"}, c[0])]
		method, path, _ := strings.Cut(a.filled(c[1]), " ")
		var body object
		must(t, json.Unmarshal([]byte(a.filled(c[2])), &body))
		n := 0
		mutate(body, func(where string) {
			n++
			r, err := a.as(version).send(method, "/v1/"+path, body)
			if err != nil {
				t.Fatalf("%s with %s: %v", c[1], where, err)
			}
			if r.status != 200 && (n == 1 || r.status < 400 || r.status > 499 || r.body["code"] == nil) {
				t.Errorf("%s with %s: status %d: %s", c[1], where, r.status, r.text)
			}
		})
		a.as(version).ok(method, "/v1/"+path, body) // works as before, and undoes the odd requests
		if n < 10 {
			t.Errorf("%s: only %d requests", c[1], n)
		}
	}
	a.play("GET pages/$page\nGET databases/$tasks")
}

// mutate calls try with v unchanged, and with each oddity in each place of v.
func mutate(v any, try func(where string)) {
	try("nothing odd")
	walk("", v, func(any) {}, try)
}

func walk(path string, v any, set func(any), try func(string)) {
	if path != "" {
		for _, odd := range oddities {
			set(odd)
			data, _ := json.Marshal(odd)
			try(fmt.Sprintf("%s = %s", path, data))
		}
		set(v)
	}
	switch v := v.(type) {
	case object:
		for key, member := range v {
			walk(path+"."+key, member, func(x any) { v[key] = x }, try)
		}
	case list:
		for i, element := range v {
			walk(fmt.Sprintf("%s[%d]", path, i), element, func(x any) { v[i] = x }, try)
		}
	}
}
