package emulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	a25 := a.as("2025-09-03")
	source := a.sourceOf(db)
	page := a.row(db, object{"Name": title("Row")})
	task := a.e.Pages(dbs.Tasks)[0].ID
	maria := at(a.ok("GET", "/v1/users", nil), "results", 1, "id")
	block := at(a.ok("PATCH", "/v1/blocks/"+page+"/children", object{"children": list{paragraph("x")}}), "results", 0, "id")
	discussion := a.ok("POST", "/v1/comments", object{"parent": object{"page_id": page}, "rich_text": list{}})["discussion_id"]
	cursor := a.ok("POST", "/v1/databases/"+dbs.Tasks+"/query", object{"page_size": 1})["next_cursor"]
	schema := everything(dbs.Tasks)
	delete(schema, "Strange") // cannot be made
	small := object{"Name": object{"title": object{}}, "Number": object{"number": object{"format": "euro"}}}
	small["Dual"] = object{"relation": object{"database_id": dbs.Tasks, "type": "dual_property", "dual_property": object{"synced_property_name": "Back"}}}
	small25 := object{"Name": small["Name"], "Number": small["Number"]}
	small25["Dual"] = object{"relation": object{"data_source_id": a.sourceOf(dbs.Tasks), "type": "dual_property", "dual_property": object{"synced_property_name": "Back"}}}
	schema["Status"] = object{"type": "status", "status": object{
		"options": list{object{"name": "a", "color": "red", "id": "1"}}, "groups": list{object{"name": "g", "color": "blue", "option_ids": list{"1"}}},
	}}
	values := object{
		"Name": title("x"), "Text": object{"rich_text": list{
			object{"text": object{"content": "x", "link": object{"url": "https://example.com"}}, "annotations": object{"bold": true, "color": "red"}},
			object{"mention": object{"user": object{"id": maria}}}, object{"mention": object{"page": object{"id": task}}},
			object{"mention": object{"date": object{"start": "2026-01-01", "end": nil, "time_zone": nil}}}, object{"equation": object{"expression": "x"}},
		}},
		"Number": object{"number": 1}, "Select": object{"select": object{"name": "red"}}, "Multi": object{"multi_select": list{object{"name": "a"}}},
		"Status": object{"status": object{"name": "OPEN"}}, "Date": object{"date": object{"start": "2026-01-01T00:00:00", "end": "2026-01-02", "time_zone": "Europe/Paris"}},
		"People": object{"people": list{object{"id": maria}}}, "Check": object{"checkbox": true}, "URL": object{"url": "x"}, "Email": object{"email": "x"},
		"Phone": object{"phone_number": "x"}, "Relation": object{"relation": list{object{"id": task}}},
		"Files": object{"files": list{object{"name": "f", "external": object{"url": "x"}}, object{"name": "g", "file": object{"url": "x"}}}},
	}
	date := object{"property": "Date", "date": object{"on_or_after": "2026-01-01"}}
	filters := list{
		date, object{"property": "Text", "rich_text": object{"contains": "x"}}, object{"property": "Number", "number": object{"less_than": 1}},
		object{"property": "Check", "checkbox": object{"equals": true}}, object{"property": "Select", "select": object{"equals": list{"red"}}},
		object{"property": "Multi", "multi_select": object{"contains": "a"}}, object{"property": "People", "people": object{"contains": maria}},
		object{"property": "Files", "files": object{"is_empty": true}}, object{"property": "Formula", "formula": object{"string": object{"equals": "x"}}},
		object{"property": "Rollup", "rollup": object{"number": object{"equals": 1}}}, object{"property": "Verified", "verification": object{"status": "none"}},
		object{"timestamp": "created_time", "created_time": object{"past_week": object{}}}, object{"or": list{date}},
	}
	query := object{
		"filter": object{"and": filters}, "sorts": list{object{"property": "Name", "direction": "ascending"}, object{"timestamp": "created_time", "direction": "ascending"}},
		"page_size": 10, "start_cursor": cursor, "archived": false,
	}
	blocks := list{object{"paragraph": object{"rich_text": list{}, "color": "red", "children": list{object{"divider": object{}}}}, "children": list{paragraph("x")}}}
	text := list{object{"text": object{"content": "x"}}}
	icon := object{"type": "emoji", "emoji": "x"}
	for _, c := range []struct {
		api          *api
		method, path string
		body         object
	}{
		{a, "POST", "/v1/pages", object{"parent": object{"database_id": db}, "properties": values, "children": blocks, "icon": icon, "cover": nil}},
		{a25, "POST", "/v1/pages", object{"parent": object{"data_source_id": source, "page_id": task, "workspace": false}}},
		{a, "PATCH", "/v1/pages/" + page, object{"properties": values, "archived": false, "in_trash": false, "is_archived": false, "icon": icon, "cover": nil}},
		{a, "POST", "/v1/databases/" + db + "/query", query},
		{a25, "POST", "/v1/data_sources/" + source + "/query", query},
		{a, "POST", "/v1/databases", object{"parent": object{"page_id": page}, "title": text, "description": text, "properties": schema, "is_inline": true, "icon": icon}},
		{a25, "POST", "/v1/databases", object{"parent": object{"type": "page_id", "page_id": page}, "initial_data_source": object{"properties": small25}}},
		{a, "POST", "/v1/databases", object{"parent": object{"page_id": page}, "properties": small}},
		{a, "PATCH", "/v1/databases/" + db, object{"title": text, "properties": object{"Status": schema["Status"], "Select": schema["Select"]}, "archived": false}},
		{a25, "POST", "/v1/data_sources", object{"parent": object{"database_id": db}, "title": text, "properties": small25}},
		{a25, "PATCH", "/v1/data_sources/" + source, object{"title": text, "properties": object{"New": object{"name": "New", "number": object{"format": "euro"}}}, "in_trash": false}},
		{a, "PATCH", "/v1/blocks/" + page + "/children", object{"children": blocks, "after": block, "position": object{"type": "after_block", "after_block": object{"id": block}}}},
		{a, "POST", "/v1/comments", object{"parent": object{"page_id": page, "block_id": block}, "rich_text": text}},
		{a, "POST", "/v1/comments", object{"discussion_id": discussion, "rich_text": text}},
		{a, "POST", "/v1/search", object{"query": "x", "filter": object{"property": "object", "value": "page"}, "sort": object{"timestamp": "last_edited_time", "direction": "ascending"}, "page_size": 1}},
	} {
		n := 0
		mutate(c.body, func(where string) {
			if n++; n == 1 {
				c.api.ok(c.method, c.path, c.body)
			}
			r, err := c.api.send(c.method, c.path, c.body)
			if err != nil {
				t.Fatalf("%s %s with %s: %v", c.method, c.path, where, err)
			}
			if r.status != 200 && (r.status < 400 || r.status > 499 || r.body["code"] == nil) {
				t.Errorf("%s %s with %s: status %d: %s", c.method, c.path, where, r.status, r.text)
			}
		})
		c.api.ok(c.method, c.path, c.body) // works as before, and undoes the odd requests
		if n < 10 {
			t.Errorf("%s %s: only %d requests", c.method, c.path, n)
		}
	}
	a.ok("GET", "/v1/pages/"+page, nil)
	a.ok("GET", "/v1/databases/"+dbs.Tasks, nil)
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
