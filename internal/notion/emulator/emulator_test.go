package emulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
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
	names   map[string]string // what $name stands for in a play
}

// start makes an emulator that is closed when the test ends.
func start(t *testing.T, o emulator.Options) *api {
	t.Helper()
	e := need(emulator.New(o))(t)
	t.Cleanup(func() { must(t, e.Close()) })
	return &api{t: t, e: e, client: e.Client(), version: "2022-06-28", token: e.Token(), names: map[string]string{"nobody": nobody}}
}

// seeded is start with the databases of Seed: $tasks, whose data source is $source, $log and $mesh.
func seeded(t *testing.T, kind string) (*api, emulator.Databases) {
	t.Helper()
	a := start(t, emulator.Options{})
	dbs := need(a.e.Seed(kind))(t)
	a.names["tasks"], a.names["log"], a.names["mesh"] = dbs.Tasks, dbs.TaskLog, dbs.MeshLog
	a.names["source"] = a.sourceOf(dbs.Tasks)
	a.e.ResetRequests()
	return a, dbs
}

// as returns the same client with another version.
func (a *api) as(version string) *api {
	b := *a
	b.version = version
	return &b
}

// with returns the same client with another token.
func (a *api) with(token string) *api {
	b := *a
	b.token = token
	return &b
}

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
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
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
		r = strings.NewReader(b)
	default:
		r = bytes.NewReader(need(json.Marshal(b))(a.t))
	}
	req := need(http.NewRequestWithContext(a.t.Context(), method, "https://api.notion.com"+path, r))(a.t)
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
	out := reply{status: res.StatusCode, header: res.Header, text: string(data)}
	json.Unmarshal(data, &out.body) // not every answer is JSON
	return out, err
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

// play sends requests and looks at their answers, each in a line, or in one that lines with tabs before
// them continue:
//
//	[22|25|26] METHOD path [body] [ | what holds]…
//
// A path is below /v1/ if it does not begin with a slash. What holds is "status [code]: message", "path =
// JSON", where "titles" stands for those of the rows, "#path = length", or "$name = path", which keeps a
// text for the lines below. Without a status it is 200. ´ stands for `, and a message that begins with
// "body." for that of a failed validation. play returns the last answer's body.
func (a *api) play(script string) (last object) {
	a.t.Helper()
	script = strings.NewReplacer("\n\t", " ", "´", "`").Replace(strings.TrimSpace(script))
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" {
			last = a.line(line)
		}
	}
	return last
}

// filled puts what names stand for in their places.
func (a *api) filled(s string) string {
	return name.ReplaceAllStringFunc(s, func(n string) string {
		if v, ok := a.names[n[1:]]; ok {
			return v
		}
		return n
	})
}

var codes = map[int]string{400: validation, 403: "restricted_resource", 404: "object_not_found", 429: "rate_limited"}

func (a *api) line(line string) object {
	a.t.Helper()
	parts := strings.Split(line, " | ")
	words := strings.SplitN(a.filled(parts[0]), " ", 3)
	if i := slices.Index([]string{"22", "25", "26"}, words[0]); i >= 0 {
		a, words = a.as(versions[i]), strings.SplitN(a.filled(parts[0]), " ", 4)[1:]
	}
	path, body := words[1], any(nil)
	if !strings.HasPrefix(path, "/") {
		path = "/v1/" + path
	}
	if len(words) > 2 {
		body = words[2]
	}
	r := a.do(words[0], path, body)
	status := http.StatusOK
	for _, part := range parts[1:] {
		part, isName := strings.CutPrefix(part, "$")
		if !isName {
			part = a.filled(part)
		}
		left, right, equals := strings.Cut(part, " = ")
		m := refusal.FindStringSubmatch(part)
		switch {
		case m != nil:
			status, _ = strconv.Atoi(m[1])
			code := m[2]
			if code == "" {
				code = codes[status]
			}
			if r.body["code"] != nil && code != "" && r.body["code"] != code {
				a.t.Errorf("%s\nis answered %s, want the code %s", line, r.text, code)
			}
			if strings.HasPrefix(m[3], "body.") {
				m[3] = "body failed validation: " + m[3]
			}
			if m[3] != "" && r.body["message"] != m[3] {
				a.t.Errorf("%s\nsays %q\nwant %q", line, r.body["message"], m[3])
			}
		case isName:
			s, ok := at(r.body, steps(right)...).(string)
			if !ok {
				a.t.Fatalf("%s\nis answered without %s: %s", line, right, r.text)
			}
			a.names[left] = s
		case equals:
			var want any
			must(a.t, json.Unmarshal([]byte(right), &want))
			path, isLength := strings.CutPrefix(left, "#")
			got := at(r.body, steps(path)...)
			if path == "titles" {
				all := list{}
				for _, s := range titles(r.body) {
					all = append(all, s)
				}
				got = all
			}
			if isLength {
				l, _ := got.(list)
				got = float64(len(l))
			}
			same(a.t, want, got, "%s\n%s", line, left)
		default:
			a.t.Fatalf("%s: %q says nothing", line, part)
		}
	}
	if r.status != status {
		a.t.Fatalf("%s\nis answered %d, want %d: %s", line, r.status, status, r.text)
	}
	return r.body
}

var (
	name    = regexp.MustCompile(`\$\w+`)
	refusal = regexp.MustCompile(`^(\d{3})(?: (\w+))?(?:: (.*))?$`)
)

// steps are the steps of at in a path with points.
func steps(path string) (out []any) {
	for _, step := range strings.Split(path, ".") {
		if i, err := strconv.Atoi(step); err == nil {
			out = append(out, i)
		} else {
			out = append(out, step)
		}
	}
	return out
}

// page returns a page as it is now; id may be a $name.
func (a *api) page(id string) emulator.Page {
	a.t.Helper()
	if known, ok := a.names[strings.TrimPrefix(id, "$")]; ok {
		id = known
	}
	p, ok := a.e.Page(id)
	if !ok {
		a.t.Fatalf("there is no page %s", id)
	}
	return p
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

func TestClose(t *testing.T) {
	defer goleak.VerifyNone(t)
	a := &api{t: t, e: need(emulator.New(emulator.Options{Token: "mine"}))(t), version: "2022-06-28", token: "mine"}
	a.client = a.e.Client()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { a.ok("GET", "/v1/users/me", nil) })
	}
	wg.Wait()
	must(t, a.e.Close())
	if _, err := a.send("GET", "/v1/users/me", nil); err == nil {
		t.Error("a closed emulator answers")
	}
	must(t, a.e.Close())
}

// Any URL leads to the emulator, with a token that is made, or given.
func TestClientAndToken(t *testing.T) {
	a := start(t, emulator.Options{})
	for _, host := range []string{"https://api.notion.com", "http://localhost:1234", "http://notion.invalid"} {
		res := need(a.client.Get(host + "/v1/users/me"))(t)
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", host, res.Status)
		}
	}
	if two := start(t, emulator.Options{}); !strings.HasPrefix(a.token, "ntn_") || a.token == two.token {
		t.Errorf("tokens are %q and %q", a.token, two.token)
	}
}

func TestRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := start(t, emulator.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		dbs := need(a.e.Seed("empty"))(t)
		began := time.Now()
		a.do("POST", "/v1/databases/"+dbs.Tasks+"/query?filter_properties=title", object{"page_size": 1})
		time.Sleep(time.Second)
		a.as("2025-09-03").do("GET", "/v1/pages/"+nobody, nil)
		synctest.Wait()
		same(t, []emulator.Request{
			{Time: began, Method: "POST", Path: "/v1/databases/" + dbs.Tasks + "/query", RawQuery: "filter_properties=title",
				Version: "2022-06-28", Body: []byte(`{"page_size":1}`), Status: 200},
			{Time: began.Add(time.Second), Method: "GET", Path: "/v1/pages/" + nobody, Version: "2025-09-03", Status: 404},
		}, a.e.Requests(), "requests")
		if strings.Count(log.String(), "msg=request") != 2 || strings.Contains(log.String(), a.token) {
			t.Errorf("want two lines, without the token:\n%s", log.String())
		}
		a.e.ResetRequests()
		same(t, []emulator.Request(nil), a.e.Requests(), "after a reset")
	})
}

// Other processes inject faults and read the log over HTTP.
func TestControlOverHTTP(t *testing.T) {
	a := start(t, emulator.Options{Token: "secret", Limit: 3})
	a.with("wrong").play(`GET /_emulator/requests | 401 unauthorized`)
	a.play(`
GET /_emulator/nonsense | 404 invalid_request_url
POST /_emulator/faults {"kind": "Earthquake"} | 400
POST /_emulator/faults {"kind": "Error500", "delay": "soon"} | 400
POST /_emulator/faults {"kind": "Error500", "event": "*"} | 400
POST /_emulator/faults {"kind": "LoseEvent"} | 400
POST /_emulator/faults {"kind": "LoseEvent", "event": "page.*", "times": 1} | 204
POST /_emulator/faults {"kind": "Error500", "method": "GET", "path": "/v1/users/*", "skip": 1, "times": 1} | 204
POST /_emulator/faults {"kind": "RateLimited429", "method": "POST", "retry_after": "90s", "reason": "x"} | 204
GET users/me
GET users/me | 500
POST search {} | 429 | additional_data = {"rate_limit_reason": "x", "retry_after": "90"}
GET users/me | 429 | additional_data.rate_limit_reason = "public_api_request_rate_limit"
DELETE /_emulator/faults | 204`) // control requests do not count for the real limit
	var log []emulator.Request
	must(t, json.Unmarshal([]byte(a.do("GET", "/_emulator/requests", nil).text), &log))
	same(t, a.e.Requests(), log, "requests")
	if len(log) != 4 || string(log[2].Body) != "{}" {
		t.Errorf("requests are %+v", log)
	}
	a.do("DELETE", "/_emulator/requests", nil)
	same(t, []emulator.Request(nil), a.e.Requests(), "after DELETE")
}

// Deleting the faults releases the requests that they stall, even after Times is used up.
func TestFaultsOverHTTPSayEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		a.names["id"] = a.row(dbs.Tasks, nil)
		status := func() string { return a.page("$id").Select("status") }
		const write = `PATCH pages/$id {"properties":{"status":{"status":{"name":"BLOCKED"}}}}`
		began := time.Now()
		a.play(`
POST /_emulator/faults {"kind": "Delay", "times": 1, "delay": "1500ms"} | 204
GET users/me
POST /_emulator/faults {"kind": "LateWrite503", "times": 1, "late": "10s"} | 204
` + write + ` | 503 service_unavailable`)
		if took := time.Since(began); took != 1500*time.Millisecond {
			t.Errorf("answered after %s, want 1.5s", took)
		}
		for _, want := range []string{"OPEN", "BLOCKED"} {
			if time.Sleep(9 * time.Second); status() != want {
				t.Errorf("after %s the status is %s, want %s", time.Since(began), status(), want)
			}
		}
		a.play(`POST /_emulator/faults {"kind": "Stop", "method": "PATCH", "times": 1} | 204`)
		var wg sync.WaitGroup
		wg.Go(func() { a.play(write) })
		synctest.Wait()
		a.do("DELETE", "/_emulator/faults", nil)
		wg.Wait()
	})
}

// With many concurrent writers each write is atomic, none is lost, and the state file has them all.
func TestWritesAreAtomic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	a := start(t, emulator.Options{StateFile: file})
	id := a.row(need(a.e.Seed("empty"))(t).Tasks, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				name := string(rune('a' + i))
				a.ok("PATCH", "/v1/blocks/"+id+"/children", object{"children": list{paragraph(name)}})
				got := a.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text(name), "claim_token": text(name)}})
				for _, property := range []string{"claimed_by", "claim_token"} {
					if by := at(got, "properties", property, "rich_text", 0, "plain_text"); by != name {
						t.Errorf("wrote %s, the answer shows %v in %s", name, by, property)
					}
				}
			}
		})
	}
	wg.Wait()
	p := a.page(id)
	if p.Text("claimed_by") != p.Text("claim_token") || strings.Count(p.Body(), "\n") != 79 {
		t.Errorf("claimed_by %q, claim_token %q, %d lines", p.Text("claimed_by"), p.Text("claim_token"), strings.Count(p.Body(), "\n")+1)
	}
	if q := start(t, emulator.Options{StateFile: file}).page(id); q.Body() != p.Body() || q.Text("claimed_by") != p.Text("claimed_by") {
		t.Error("the state file has another state than the answers")
	}
}

func TestStateSurvives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	a := start(t, emulator.Options{StateFile: file})
	dbs := need(a.e.Seed("demo"))(t)
	a.names["id"], a.names["tasks"] = a.e.Pages(dbs.Tasks)[4].ID, dbs.Tasks
	a.play(`
PATCH pages/$id {"properties":{"claimed_by":{"rich_text":[{"text":{"content":"Sandman"}}]},"priority":{"select":{"name":"urgent"}}}}
PATCH blocks/$id/children {"children":[{"paragraph":{"rich_text":[{"text":{"content":"a block"}}]}}]}
POST comments {"parent":{"page_id":"$id"},"rich_text":[{"text":{"content":"a comment"}}]}`)
	must(t, a.e.Unshare(dbs.TaskLog))
	must(t, a.e.SetBlockLimit(7))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v, %v", info, err)
	}

	b := start(t, emulator.Options{StateFile: file}) // the first is still open
	if b.names = a.names; b.token != a.token || b.e.Databases() != dbs {
		t.Errorf("token %q, databases %v, want %q, %v", b.token, b.e.Databases(), a.token, dbs)
	}
	for _, path := range []string{"databases/" + dbs.Tasks, "pages/$id", "blocks/$id/children", "comments?block_id=$id", "databases/" + dbs.TaskLog} {
		path = "/v1/" + strings.Replace(path, "$id", a.names["id"], 1)
		want, got := a.do("GET", path, nil).body, b.do("GET", path, nil).body
		delete(want, "request_id")
		delete(got, "request_id")
		same(t, want, got, "%s", path)
	}
	same(t, a.query(dbs.Tasks, object{}), b.query(dbs.Tasks, object{}), "rows")
	const create = `POST pages {"parent":{"database_id":"$tasks"}}`
	b.play(create + ` | properties.ID.unique_id.number = 21` + strings.Repeat("\n"+create, 6) + "\n" + create + ` | 403`)
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
	id := a.row(need(a.e.Seed("empty"))(t).Tasks, nil)
	before := need(os.ReadFile(file))(t)
	b := start(t, emulator.Options{Begin: file})
	b.ok("PATCH", pathPages+"/"+id, object{"properties": object{"claimed_by": text("Sandman")}})
	must(t, b.e.Close())
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file was written (%v)", err)
	}
	must(t, b.e.WriteState(file))
	if by := start(t, emulator.Options{Begin: file}).page(id).Text("claimed_by"); by != "Sandman" {
		t.Errorf("claimed_by %q", by)
	}
}

func TestBadStateFiles(t *testing.T) {
	dir := t.TempDir()
	broken, taken := filepath.Join(dir, "broken.json"), filepath.Join(dir, "taken.json")
	must(t, os.WriteFile(broken, []byte("{"), 0o600))
	for _, file := range []string{broken, dir} {
		if _, err := emulator.New(emulator.Options{StateFile: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("a state file that is none: %v", err)
		}
	}
	for _, file := range []string{taken, filepath.Join(dir, "no", "such", "dir")} {
		e := need(emulator.New(emulator.Options{StateFile: file}))(t)
		if file == taken {
			must(t, os.Mkdir(taken, 0o700))
		}
		if _, err := e.Seed("demo"); err == nil {
			t.Errorf("the state was saved in %s", file)
		}
	}
	if left, err := filepath.Glob(taken + ".*"); err != nil || len(left) > 0 { // a failed replacement leaves no temporary file
		t.Errorf("files left over: %v, %v", left, err)
	}
}
