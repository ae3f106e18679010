package emulator_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

// TestMain lets garbage lie for longer than usual: the tests make much, and little of it lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// api uses an emulator through its in-memory client.
type api struct {
	t       *testing.T
	e       *emulator.Emulator
	client  *http.Client
	version string
	token   string
}

// start makes an emulator that is closed when the test ends.
func start(t *testing.T, o emulator.Options) *api {
	t.Helper()
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &api{t: t, e: e, client: e.Client(), version: "2022-06-28", token: e.Token()}
}

// seeded is start with the databases of Seed.
func seeded(t *testing.T, kind string) (*api, emulator.Databases) {
	t.Helper()
	a := start(t, emulator.Options{})
	dbs, err := a.e.Seed(kind)
	if err != nil {
		t.Fatal(err)
	}
	return a, dbs
}

// as returns the same client with another version.
func (a *api) as(version string) *api {
	b := *a
	b.version = version
	return &b
}

// in returns the same client for a subtest.
func (a *api) in(t *testing.T) *api {
	b := *a
	b.t = t
	return &b
}

// reply is an answer, decoded if it is JSON.
type reply struct {
	status int
	header http.Header
	text   string
	body   object
}

type object = map[string]any

type list = []any

// send sends a request; a string body is sent unchanged, any other as JSON.
func (a *api) send(method, path string, body any) (reply, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = bytes.NewBufferString(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			a.t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, "https://api.notion.com"+path, r)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.version != "" {
		req.Header.Set("Notion-Version", a.version)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	out := reply{status: res.StatusCode, header: res.Header, text: string(data)}
	json.Unmarshal(data, &out.body) // not every answer is JSON
	return out, nil
}

// do is send; the request must be answered.
func (a *api) do(method, path string, body any) reply {
	a.t.Helper()
	r, err := a.send(method, path, body)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// ok is do; the request must succeed. It returns the answer's body.
func (a *api) ok(method, path string, body any) object {
	a.t.Helper()
	r := a.do(method, path, body)
	if r.status != http.StatusOK {
		a.t.Fatalf("%s %s: status %d: %s", method, path, r.status, r.text)
	}
	return r.body
}

// refused is do; the request must be refused.
func (a *api) refused(method, path string, body any, status int, code, message string) reply {
	a.t.Helper()
	r := a.do(method, path, body)
	if r.status != status || r.body["code"] != code || message != "" && r.body["message"] != message {
		a.t.Errorf("%s %s:\n got %d %v %q\nwant %d %s %q", method, path, r.status, r.body["code"], r.body["message"], status, code, message)
	}
	return r
}

func text(s string) object {
	return object{"rich_text": list{object{"text": object{"content": s}}}}
}

func title(s string) object {
	return object{"title": list{object{"text": object{"content": s}}}}
}

// at returns a part of decoded JSON: strings are keys, ints are indexes.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(object)
			v = m[s]
		case int:
			l, _ := v.(list)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t)
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, e: e, client: e.Client(), version: "2022-06-28", token: e.Token()}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { a.ok("GET", "/v1/users/me", nil) })
	}
	wg.Wait()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.send("GET", "/v1/users/me", nil); err == nil {
		t.Error("a closed emulator answers")
	}
	if err := e.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestAnyURLLeadsToTheEmulator(t *testing.T) {
	a := start(t, emulator.Options{})
	for _, host := range []string{"https://api.notion.com", "http://localhost:1234", "http://notion.invalid"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", host+"/v1/users/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.token)
		req.Header.Set("Notion-Version", a.version)
		res, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", host, res.Status)
		}
	}
}

func TestTokensAreMade(t *testing.T) {
	one, two := start(t, emulator.Options{}), start(t, emulator.Options{})
	if !strings.HasPrefix(one.token, "ntn_") || one.token == two.token {
		t.Errorf("tokens are %q and %q", one.token, two.token)
	}
	if got := start(t, emulator.Options{Token: "mine"}).token; got != "mine" {
		t.Errorf("token = %q, want mine", got)
	}
}

func TestRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := start(t, emulator.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		dbs, err := a.e.Seed("empty")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a.do("POST", "/v1/databases/"+dbs.Tasks+"/query?filter_properties=title", object{"page_size": 1})
		time.Sleep(time.Second)
		a.as("2025-09-03").do("GET", "/v1/pages/"+nobody, nil)
		want := []emulator.Request{
			{Time: began, Method: "POST", Path: "/v1/databases/" + dbs.Tasks + "/query", RawQuery: "filter_properties=title",
				Version: "2022-06-28", Body: []byte(`{"page_size":1}`), Status: 200},
			{Time: began.Add(time.Second), Method: "GET", Path: "/v1/pages/" + nobody, Version: "2025-09-03", Body: []byte{}, Status: 404},
		}
		synctest.Wait()
		if diff := cmp.Diff(want, a.e.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "msg=request"); n != 2 {
			t.Errorf("%d lines logged, want 2:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), a.token) {
			t.Error("the token is in the log")
		}
		a.e.ResetRequests()
		if got := a.e.Requests(); len(got) != 0 {
			t.Errorf("requests after a reset: %v", got)
		}
	})
}

// Other processes inject faults and read the log over HTTP.
func TestControlOverHTTP(t *testing.T) {
	e, err := emulator.New(emulator.Options{Token: "secret", Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	srv := httptest.NewServer(e)
	defer srv.Close()
	send := func(token, method, path, body string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Notion-Version", "2022-06-28")
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, b.Bytes()
	}
	for _, c := range []struct {
		token, method, path, body string
		status                    int
	}{
		{"wrong", "GET", "/_emulator/requests", "", 401},
		{"secret", "GET", "/_emulator/nonsense", "", 404},
		{"secret", "POST", "/_emulator/faults", `{"kind": "Earthquake"}`, 400},
		{"secret", "POST", "/_emulator/faults", `{"kind": "Error500", "delay": "soon"}`, 400},
		{"secret", "POST", "/_emulator/faults", `{"kind": "Error500", "event": "*"}`, 400},
		{"secret", "POST", "/_emulator/faults", `{"kind": "LoseEvent"}`, 400},
		{"secret", "POST", "/_emulator/faults", `{"kind": "LoseEvent", "event": "page.*", "times": 1}`, 204},
		{"secret", "POST", "/_emulator/faults", `{"kind": "Error500", "method": "GET", "path": "/v1/users/*", "skip": 1, "times": 1}`, 204},
		{"secret", "POST", "/_emulator/faults", `{"kind": "RateLimited429", "method": "POST", "retry_after": "90s", "reason": "x"}`, 204},
		{"secret", "GET", "/v1/users/me", "", 200},
		{"secret", "GET", "/v1/users/me", "", 500},
		{"secret", "POST", "/v1/search", "{}", 429},
		{"secret", "GET", "/v1/users/me", "", 429}, // from the real limit: control requests do not count
		{"secret", "DELETE", "/_emulator/faults", "", 204},
	} {
		if status, body := send(c.token, c.method, c.path, c.body); status != c.status {
			t.Errorf("%s %s %s: status %d, want %d: %s", c.method, c.path, c.body, status, c.status, body)
		}
	}
	_, body := send("secret", "GET", "/_emulator/requests", "")
	var log []emulator.Request
	if err := json.Unmarshal(body, &log); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.Requests(), log, cmpopts.EquateEmpty()); diff != "" || len(log) != 4 || string(log[2].Body) != "{}" {
		t.Errorf("requests are %+v", log)
	}
	send("secret", "DELETE", "/_emulator/requests", "")
	if got := e.Requests(); len(got) != 0 {
		t.Errorf("requests after DELETE: %v", got)
	}
}

func TestFaultsOverHTTPSayEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		inject := func(f object) {
			if r := a.do("POST", "/_emulator/faults", f); r.status != http.StatusNoContent {
				t.Fatalf("status %d: %s", r.status, r.text)
			}
		}
		inject(object{"kind": "RateLimited429", "times": 1, "retry_after": "90s", "reason": "public_api_endpoint_rate_limit"})
		r := a.do("GET", "/v1/users/me", nil)
		want := object{"rate_limit_reason": "public_api_endpoint_rate_limit", "retry_after": "90"}
		if diff := cmp.Diff(want, r.body["additional_data"]); diff != "" || r.header.Get("Retry-After") != "90" {
			t.Errorf("additional_data (-want +got):\n%s", diff)
		}
		inject(object{"kind": "Delay", "times": 1, "delay": "1500ms"})
		began := time.Now()
		a.ok("GET", "/v1/users/me", nil)
		if took := time.Since(began); took != 1500*time.Millisecond {
			t.Errorf("answered after %s, want 1.5s", took)
		}
		inject(object{"kind": "LateWrite503", "times": 1, "late": "10s"})
		a.do("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("BLOCKED")}})
		time.Sleep(9 * time.Second)
		if p, _ := a.e.Page(id); p.Select("status") != "OPEN" {
			t.Errorf("after 9s the status is %s, want OPEN", p.Select("status"))
		}
		time.Sleep(2 * time.Second)
		if p, _ := a.e.Page(id); p.Select("status") != "BLOCKED" {
			t.Errorf("after 11s the status is %s, want BLOCKED", p.Select("status"))
		}
	})
}

// Deleting the faults releases the requests that they stall, even after Times is used up.
func TestControlLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		id := a.row(dbs.Tasks, nil)
		if r := a.do("POST", "/_emulator/faults", object{"kind": "Stop", "method": "PATCH", "times": 1}); r.status != http.StatusNoContent {
			t.Fatalf("status %d: %s", r.status, r.text)
		}
		done := make(chan reply)
		go func() {
			r, _ := a.send("PATCH", pathPages+"/"+id, object{"properties": object{"status": status("BLOCKED")}})
			done <- r
		}()
		synctest.Wait()
		a.do("DELETE", "/_emulator/faults", nil)
		if r := <-done; r.status != http.StatusOK {
			t.Errorf("status %d", r.status)
		}
	})
}

// With many concurrent writers each write is atomic, none is lost, and the state file has them all.
func TestWritesAreAtomic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	a := start(t, emulator.Options{StateFile: file})
	dbs, err := a.e.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	id := a.row(dbs.Tasks, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				name := string(rune('a' + i))
				a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph(name)}})
				got := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text(name), "claim_token": text(name)}})
				if by, token := at(got, "properties", "claimed_by", "rich_text", 0, "plain_text"), at(got, "properties", "claim_token", "rich_text", 0, "plain_text"); by != name || token != name {
					t.Errorf("wrote %s, the answer shows %v and %v", name, by, token)
				}
			}
		})
	}
	wg.Wait()
	p, _ := a.e.Page(id)
	if p.Text("claimed_by") != p.Text("claim_token") || strings.Count(p.Body(), "\n") != 79 {
		t.Errorf("claimed_by %q, claim_token %q, %d lines", p.Text("claimed_by"), p.Text("claim_token"), strings.Count(p.Body(), "\n")+1)
	}
	again := start(t, emulator.Options{StateFile: file})
	if q, _ := again.e.Page(id); q.Body() != p.Body() || q.Text("claimed_by") != p.Text("claimed_by") {
		t.Error("the state file has another state than the answers")
	}
}

func TestStateSurvives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	a := start(t, emulator.Options{StateFile: file})
	dbs, err := a.e.Seed("demo")
	if err != nil {
		t.Fatal(err)
	}
	id := a.e.Pages(dbs.Tasks)[4].ID
	a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("Sandman"), "priority": object{"select": object{"name": "urgent"}}}})
	a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph("a block")}})
	a.ok("POST", "/v1/comments", object{"parent": object{"page_id": id}, "rich_text": text("a comment")["rich_text"]})
	if err := a.e.Unshare(dbs.TaskLog); err != nil {
		t.Fatal(err)
	}
	if err := a.e.SetBlockLimit(7); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v, %v", info, err)
	}

	b := start(t, emulator.Options{StateFile: file}) // the first is still open
	if b.token != a.token || b.e.Databases() != dbs {
		t.Errorf("token %q, databases %v, want %q, %v", b.token, b.e.Databases(), a.token, dbs)
	}
	for _, path := range []string{
		"/v1/databases/" + dbs.Tasks, pathPages + "/" + id, "/v1/blocks/" + id + "/children", "/v1/comments?block_id=" + id,
		"/v1/databases/" + dbs.TaskLog,
	} {
		want, got := a.do("GET", path, nil).body, b.do("GET", path, nil).body
		delete(want, "request_id")
		delete(got, "request_id")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(a.query(dbs.Tasks, object{}), b.query(dbs.Tasks, object{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := at(b.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}}), "properties", "ID", "unique_id", "number"); got != 21.0 {
		t.Errorf("the next task is number %v, want 21", got)
	}
	for range 6 {
		b.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}})
	}
	b.refused("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}}, http.StatusForbidden, "restricted_resource", "")

	if left, err := filepath.Glob(file + "*"); err != nil || len(left) != 1 {
		t.Errorf("files left beside the state: %v, %v", left, err)
	}
	if got, err := b.e.Seed("demo"); err != nil || got != dbs || len(b.e.Pages(dbs.Tasks)) != 27 {
		t.Errorf("seeding again: %v, %v, %d tasks", got, err, len(b.e.Pages(dbs.Tasks)))
	}
}

// A state file to begin with is only read, until WriteState.
func TestBegin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	a := start(t, emulator.Options{StateFile: file})
	dbs, err := a.e.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	id := a.row(dbs.Tasks, nil)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, emulator.Options{Begin: file})
	b.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("Sandman")}})
	if err := b.e.Close(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file was written (%v)", err)
	}
	if err := b.e.WriteState(file); err != nil {
		t.Fatal(err)
	}
	c := start(t, emulator.Options{Begin: file})
	if p, _ := c.e.Page(id); p.Text("claimed_by") != "Sandman" {
		t.Errorf("claimed_by %q", p.Text("claimed_by"))
	}
}

func TestBadStateFiles(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := emulator.New(emulator.Options{StateFile: broken}); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("a broken state file: %v", err)
	}
	if _, err := emulator.New(emulator.Options{StateFile: dir}); err == nil {
		t.Error("a directory was taken for a state file")
	}
	// A failed replacement leaves no temporary file.
	taken := filepath.Join(dir, "taken.json")
	f, err := emulator.New(emulator.Options{StateFile: taken})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seed("demo"); err == nil {
		t.Error("a directory was replaced by the state")
	}
	if left, err := filepath.Glob(taken + ".*"); err != nil || len(left) > 0 {
		t.Errorf("files left over: %v, %v", left, err)
	}
	e, err := emulator.New(emulator.Options{StateFile: filepath.Join(dir, "no", "such", "dir")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Seed("demo"); err == nil {
		t.Error("a state that could not be saved was not reported")
	}
}
