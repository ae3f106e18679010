package emulator_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/mirror/webhook"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

const hookURL = "http://127.0.0.1:8788/notion"

// hook receives what an emulator sends, without sockets.
type hook struct {
	t      *testing.T
	answer func(http.ResponseWriter, *http.Request) // nil answers 200

	url    string
	mu     sync.Mutex
	tokens []string // the last one signs
	got    []told
}

// told is one event that arrived.
type told struct {
	after     time.Duration // since midnight
	body      object
	raw       []byte
	signature string
}

func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		done <- w.Result()
	}()
	select {
	case answer := <-done:
		return answer, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var body object
	if err != nil || json.Unmarshal(data, &body) != nil || r.URL.String() != h.url || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		h.t.Errorf("%s %s %v with the body %s: %v", r.Method, r.URL, r.Header, data, err)
	}
	h.mu.Lock()
	if token, ok := body["verification_token"].(string); ok {
		if h.tokens = append(h.tokens, token); r.Header.Get("X-Notion-Signature") != "" {
			h.t.Error("the token came with a signature")
		}
	} else {
		mac := hmac.New(sha256.New, []byte(h.tokens[len(h.tokens)-1]))
		mac.Write(data)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-Notion-Signature") != want {
			h.t.Errorf("the signature is %s, want %s", r.Header.Get("X-Notion-Signature"), want)
		}
		h.got = append(h.got, told{time.Since(midnight), body, data, r.Header.Get("X-Notion-Signature")})
	}
	h.mu.Unlock()
	if h.answer != nil {
		h.answer(w, r)
	}
}

// midnight is when time begins in a bubble.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// even is Notion's pace without its randomness.
func even() *emulator.Pace {
	p := emulator.NotionPace()
	p.Spread = 0
	return &p
}

// hooked is a board with one task whose webhook has accepted the token.
func hooked(t *testing.T) (*api, emulator.Databases, *hook) {
	t.Helper()
	a, dbs := seeded(t, "empty")
	a.row(dbs.Tasks, nil)
	h := &hook{t: t, url: hookURL}
	subscribe(t, a.e, h)
	return a.as("2026-03-11"), dbs, h
}

func subscribe(t *testing.T, e *emulator.Emulator, h *hook) {
	t.Helper()
	must(t, e.Subscribe(emulator.Webhook{URL: h.url, Client: &http.Client{Transport: h}, Pace: even()}))
	synctest.Wait()
}

// lines returns what arrived since the last call, each as "seconds type authors what", and forgets it.
func (h *hook) lines() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, got := range h.got {
		line := fmt.Sprintf("%v %s", got.after.Seconds(), got.body["type"])
		for _, author := range got.body["authors"].(list) {
			line += " " + map[any]string{botID: "dibs", maria: "Maria"}[at(author, "id")]
		}
		if n := got.body["attempt_number"]; n != 1.0 {
			line += fmt.Sprintf(" attempt %v", n)
		}
		for _, key := range []string{"updated_properties", "updated_blocks"} {
			said, _ := at(got.body, "data", key).(list)
			for _, v := range said {
				if m, isObject := v.(object); isObject {
					v = fmt.Sprint(m["action"], " ", m["name"])
					if key == "updated_blocks" {
						v = m["type"]
					}
				}
				line += fmt.Sprintf(" %v", v)
			}
		}
		lines = append(lines, line)
	}
	h.got = nil
	return lines
}

const (
	botID = "6d2f5c1e-94a3-4c0b-8b53-0f7c2f1d9a10"
	maria = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"
)

func wants(t *testing.T, h *hook, want ...string) {
	t.Helper()
	same(t, want, h.lines(), "events")
}

// idOf returns the id of a property of the tasks, as events name it.
func (a *api) idOf(page, name string) string {
	return at(a.ok("GET", pathPages+"/"+page, nil), "properties", name, "id").(string)
}

func (a *api) patchStatus(page, name string) {
	a.t.Helper()
	a.ok("PATCH", pathPages+"/"+page, object{"properties": object{"status": status(name)}})
}

// TestWebhookVerifies posts the token until it is accepted, and tells of nothing before.
func TestWebhookVerifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs := seeded(t, "empty")
		var tokens []time.Duration
		h := &hook{t: t, url: hookURL}
		h.answer = func(w http.ResponseWriter, r *http.Request) {
			tokens = append(tokens, time.Since(midnight))
			if len(tokens) < 3 {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
		subscribe(t, a.e, h)
		a.row(dbs.Tasks, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, 10 * time.Second}, tokens); diff != "" || !regexp.MustCompile(`^secret_\w{40,}$`).MatchString(h.tokens[0]) {
			t.Errorf("the tokens %q came at (-want +got):\n%s", h.tokens, diff)
		}
		wants(t, h)
		a.row(dbs.Tasks, nil)
		time.Sleep(time.Minute)
		wants(t, h, "63 page.created Maria", "90 data_source.content_updated Maria page")
		if err := a.e.Subscribe(emulator.Webhook{URL: hookURL}); err == nil {
			t.Error("a second webhook is taken")
		}
	})
	for _, url := range []string{"", "127.0.0.1:80", "ftp://127.0.0.1/", "http://"} {
		if err := start(t, emulator.Options{}).e.Subscribe(emulator.Webhook{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}

func TestWebhookBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		time.Sleep(1234 * time.Millisecond)
		task := a.ok("POST", pathPages, object{"parent": object{"database_id": dbs.Tasks}, "properties": object{"Name": title("x < y & ü")}})["id"].(string)
		time.Sleep(10 * time.Second)
		a.patchStatus(task, "BLOCKED")
		a.ok("POST", "/v1/comments", object{"parent": object{"page_id": task}, "rich_text": list{object{"text": object{"content": "Ah"}}}})
		time.Sleep(10 * time.Second)
		source := a.sourceOf(dbs.Tasks)
		body := func(kind, stamp string, entity, data object) object {
			return object{
				"timestamp": stamp, "workspace_id": "1a8ef6b2-5d3c-4e1f-a6b7-3c9d8e0f1a2b", "workspace_name": "Workspace",
				"integration_id": "b7c0a0f4-3f5e-4d0e-9a57-1f2f4a6e8c21", "authors": list{object{"id": botID, "type": "bot"}},
				"attempt_number": 1.0, "api_version": "2026-03-11", "type": kind, "entity": entity, "data": data,
			}
		}
		page, row := object{"id": task, "type": "page"}, object{"id": dbs.Tasks, "type": "database", "data_source_id": source}
		comment := at(a.ok("GET", "/v1/comments?block_id="+task, nil), "results", 0, "id")
		want := []object{
			body("page.created", "2000-01-01T00:00:01.234Z", page, object{"parent": row}),
			body("page.properties_updated", "2000-01-01T00:00:11.234Z", page, object{"parent": row, "updated_properties": list{a.idOf(task, "status")}}),
			body("comment.created", "2000-01-01T00:00:11.234Z", object{"id": comment, "type": "comment"}, object{"parent": page, "page_id": task}),
		}
		synctest.Wait()
		var got []object
		ids := map[any]bool{}
		for _, e := range h.got {
			ids[e.body["id"]], ids[e.body["subscription_id"]] = true, true
			delete(e.body, "id")
			delete(e.body, "subscription_id")
			got = append(got, e.body)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(ids) != 4 || ids[nil] {
			t.Errorf("ids %v, bodies (-want +got):\n%s", ids, diff)
		}
	})
}

// TestWebhookKinds makes one change after the other.
func TestWebhookKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		task, other := a.row(dbs.Tasks, object{"Name": title("Job"), "status": status("BLOCKED")}), a.row(dbs.Tasks, nil)
		a.names["task"], a.names["other"] = task, other
		a.play(`POST pages {"parent":{"page_id":"$task"},"properties":{"title":[]}} | $below = id`)
		time.Sleep(time.Hour)
		h.lines()
		depends, notes, helper := a.idOf(task, "depends_on"), a.idOf(task, "Notes"), need(a.e.AddBot("Helper", true))(t)
		asked := func(script string) func() error {
			return func() error { a.play(script); return nil }
		}
		const page = "30 data_source.content_updated Maria page"
		for _, c := range []struct {
			name string
			do   func() error
			want []string
		}{
			{"with the same value", func() error { return a.e.EditPage(task, object{"Name": title("Job"), "status": status("BLOCKED")}) }, nil},
			{"of a page", func() error { return a.e.EditPage(a.names["below"], object{"title": title("B")}) }, []string{"1 page.properties_updated Maria title"}},
			{"by another bot", func() error { return a.e.EditPageAs(helper, task, object{"Notes": text("ja")}) }, []string{"1 page.properties_updated  " + notes}},
			{"relation", asked(`PATCH pages/$task {"properties":{"depends_on":{"relation":[{"id":"$other"}]}}}`), []string{"1 page.properties_updated dibs " + depends}},
			{"lock", asked(`PATCH pages/$task {"is_locked":true}`), []string{"2 page.locked dibs"}},
			{"unlock", asked(`PATCH pages/$task {"is_locked":false}`), []string{"2 page.unlocked dibs"}},
			{"content", func() error { return a.e.WriteMarkdown(task, "One\n\nTwo") }, []string{"30 page.content_updated Maria block block"}},
			{"content of a new page", asked(`POST pages {"parent":{"page_id":"$task"},"children":[{"paragraph":{"rich_text":[]}}]}`),
				[]string{"3 page.created dibs", "30 page.content_updated dibs page"}},
			{"trash", func() error { return a.e.TrashPage(other) }, []string{page, "30 page.deleted Maria"}},
			{"restore", func() error { return a.e.RestorePage(other) }, []string{page, "30 page.undeleted Maria"}},
			{"move", func() error { return a.e.MovePage(other, dbs.MeshLog) }, []string{page, page, "30 page.moved Maria"}},
			{"comment", func() error { return a.e.AddComment(task, maria, "Ah") }, []string{"2 comment.created Maria"}},
			{"comment resolved", func() error { return a.e.ResolveComment(a.e.Comments(task)[0].ID) }, nil},
			{"comment on a block", asked("GET blocks/$task/children | $block = results.0.id\n" + `POST comments {"parent":{"block_id":"$block"},"rich_text":[]}`),
				[]string{"2 comment.created dibs"}},
			{"schema", func() error {
				return a.e.EditSchema(dbs.Tasks, object{"Size": object{"number": object{}}, "Notes": object{"name": "Remarks"}})
			}, []string{"30 data_source.schema_updated Maria updated Remarks created Size"}},
			{"schema, less", func() error { return a.e.EditSchema(dbs.Tasks, object{"Size": nil}) }, []string{"30 data_source.schema_updated Maria deleted Size"}},
			{"database", func() error {
				_, err := a.e.CreateDatabase("New", object{"Name": object{"title": object{}}})
				return err
			}, []string{"30 data_source.created Maria", "30 database.created Maria"}},
			{"refused", asked(`PATCH pages/$task {"is_locked":true,"properties":{"Name":7}} | 400`), nil},
			{"not shared", func() error {
				return errors.Join(a.e.UnsharePage(task), a.e.EditPage(task, object{"Remarks": text("secret")}), a.e.AddComment(task, maria, "secret"),
					a.e.WriteMarkdown(task, "secret"), a.e.Unshare(dbs.MeshLog), a.e.EditSchema(dbs.MeshLog, object{"Secret": object{"number": object{}}}), a.e.TrashPage(other))
			}, nil},
		} {
			began := time.Now()
			must(t, c.do())
			time.Sleep(time.Hour)
			synctest.Wait()
			for i := range h.got {
				h.got[i].after -= began.Sub(midnight)
			}
			got := h.lines()
			slices.Sort(got) // at one moment there is no order
			same(t, c.want, got, "%s", c.name)
		}
	})
}

func TestWebhookCombines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		task := a.row(dbs.Tasks, nil)
		time.Sleep(time.Minute - time.Since(midnight)%time.Minute)
		h.lines()
		statusID, notes := a.idOf(task, "status"), a.idOf(task, "Notes")
		a.patchStatus(task, "BLOCKED")
		a.patchStatus(task, "OPEN") // the first is under way already
		for _, s := range []string{"a", "b"} {
			time.Sleep(10 * time.Second)
			must(t, a.e.EditPage(task, object{"Notes": text(s)}))
			must(t, a.e.WriteMarkdown(task, s))
			must(t, a.e.AddComment(task, maria, s))
		}
		time.Sleep(45 * time.Second) // a new minute
		a.patchStatus(task, "BLOCKED")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := h.got[4].body["timestamp"]; got != "2000-01-01T00:01:20.000Z" {
			t.Errorf("the event of several changes is of %v, want the last one's time", got)
		}
		wants(t, h,
			"61 page.properties_updated dibs "+statusID,
			"72 comment.created Maria",
			"82 comment.created Maria",
			"100 page.content_updated Maria block block",
			"120 page.properties_updated dibs Maria "+statusID+" "+notes,
			"126 page.properties_updated dibs "+statusID,
		)
	})
}

// TestWebhookSpread makes delays longer by up to a half, as the seed decides.
func TestWebhookSpread(t *testing.T) {
	var runs [][]time.Duration
	for _, seed := range []uint64{1, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			a, dbs := seeded(t, "demo")
			h := &hook{t: t, url: hookURL}
			must(t, a.e.Subscribe(emulator.Webhook{URL: hookURL, Client: &http.Client{Transport: h}, Seed: seed}))
			synctest.Wait()
			for _, p := range a.e.Pages(dbs.Tasks)[:8] {
				a.patchStatus(p.ID, "BLOCKED")
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			var after []time.Duration
			for _, e := range h.got {
				after = append(after, e.after)
			}
			if len(after) < 5 || slices.Max(after) > 1500*time.Millisecond || slices.Min(after) < time.Second || slices.Min(after) == slices.Max(after) {
				t.Errorf("seed %d: after %v", seed, after)
			}
			runs = append(runs, after)
		})
	}
	if !slices.Equal(runs[0], runs[1]) || slices.Equal(runs[0], runs[2]) {
		t.Errorf("the seeds 1, 1 and 2 make %v", runs)
	}
}

// TestWebhookTriesAgain fails all attempts, each in another way.
func TestWebhookTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		var attempts atomic.Int32
		h.answer = func(w http.ResponseWriter, r *http.Request) {
			switch attempts.Add(1) {
			case 1:
				<-r.Context().Done() // for ten seconds
			case 2:
				http.Redirect(w, r, hookURL, http.StatusTemporaryRedirect)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		must(t, a.e.AddComment(a.e.Pages(dbs.Tasks)[0].ID, maria, "Ah"))
		time.Sleep(7 * 24 * time.Hour)
		synctest.Wait()
		ids := map[any]bool{}
		for _, e := range h.got {
			ids[e.body["id"]] = true
		}
		if len(ids) != 1 {
			t.Errorf("the attempts have the ids %v", ids)
		}
		wants(t, h,
			"2 comment.created Maria",
			"72 comment.created Maria attempt 2",
			"372 comment.created Maria attempt 3",
			"1272 comment.created Maria attempt 4",
			"4872 comment.created Maria attempt 5",
			"12072 comment.created Maria attempt 6",
			"30072 comment.created Maria attempt 7",
			"69672 comment.created Maria attempt 8",
		)
	})
}

// TestWebhookFaults has Maria comment, and ten seconds later dibs.
func TestWebhookFaults(t *testing.T) {
	const first, second, again, wait = "2 comment.created Maria", "12 comment.created dibs", "62 comment.created Maria attempt 2", 20 * time.Second
	for _, c := range []struct {
		fault emulator.Fault
		want  []string
	}{
		{emulator.Fault{Kind: emulator.LoseEvent, Event: "*"}, []string{second}},
		{emulator.Fault{Kind: emulator.RepeatEvent, Event: "*"}, []string{first, first, second}},
		{emulator.Fault{Kind: emulator.Delay, Event: "comment.created", Delay: wait}, []string{second, "22 comment.created Maria"}},
		{emulator.Fault{Kind: emulator.Stop, Event: "comment.*"}, []string{second, "3600 comment.created Maria"}},
		{emulator.Fault{Kind: emulator.DropRequest, Event: "*"}, []string{second, again}},
		{emulator.Fault{Kind: emulator.DropAnswer, Event: "*"}, []string{first, second, again}},
		{emulator.Fault{Kind: emulator.LoseEvent, Event: "page.*"}, []string{first, second}},
		{emulator.Fault{Kind: emulator.LoseEvent, Event: "*", Skip: 1}, []string{first}},
		{emulator.Fault{Kind: emulator.LoseEvent, Event: "*", Path: "/other"}, []string{first, second}},
		{emulator.Fault{Kind: emulator.LoseEvent, Event: "*", Match: func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), botID) }}, []string{first}},
		{emulator.Fault{Kind: emulator.DropRequest, Path: "/notion"}, []string{first, second}}, // of requests
	} {
		t.Run(string(c.fault.Kind)+" "+c.fault.Event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, dbs, h := hooked(t)
				c.fault.Times = 1
				remove := a.inject(c.fault)
				task := a.e.Pages(dbs.Tasks)[0].ID
				must(t, a.e.AddComment(task, maria, "Ah"))
				time.Sleep(10 * time.Second)
				must(t, a.e.AddComment(task, botID, "Oh"))
				time.Sleep(time.Hour - 10*time.Second)
				remove()
				wants(t, h, c.want...)
			})
		})
	}
}

// TestWebhookKeepsItsSubscription restarts an emulator before and after the token is accepted, and
// then with another address.
func TestWebhookKeepsItsSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := filepath.Join(t.TempDir(), "state.json")
		h := &hook{t: t, answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }}
		subscriptions := map[any]bool{}
		for run, c := range []struct {
			url    string
			tokens int // so far
			events []string
		}{
			{hookURL, 3, nil}, // refused at 0, 5 and 10 s
			{hookURL, 4, []string{"63 page.created Maria"}},
			{hookURL, 4, []string{"123 page.created Maria"}},
			{hookURL + "2", 5, []string{"183 page.created Maria"}},
		} {
			time.Sleep(time.Duration(run)*time.Minute - time.Since(midnight))
			e := need(emulator.New(emulator.Options{StateFile: state}))(t)
			dbs := need(e.Seed("empty"))(t)
			h.url = c.url
			subscribe(t, e, h)
			id := need(e.CreatePage(dbs.Tasks, nil))(t)
			time.Sleep(10 * time.Second)
			must(t, e.TrashPage(id)) // Close loses that event
			time.Sleep(time.Second)
			must(t, e.Close())
			for _, e := range h.got {
				subscriptions[e.body["subscription_id"]] = true
			}
			wants(t, h, c.events...)
			if len(h.tokens) != c.tokens {
				t.Errorf("run %d: %d tokens so far, want %d", run, len(h.tokens), c.tokens)
			}
			h.answer = nil
		}
		if tokens := slices.Compact(h.tokens); len(tokens) != 2 || len(subscriptions) != 2 {
			t.Errorf("tokens %q, subscriptions %v: want one for each address", tokens, subscriptions)
		}
	})
}

// signed is a body with a signature of the X-Notion-Signature header.
type signed struct {
	Body      []byte `json:"body"`
	Signature string `json:"signature"`
}

// TestSignatures has Notion's own SDK check the emulator's signatures, and the daemon's check those
// of the SDK: both take the same ones.
func TestSignatures(t *testing.T) {
	testkit.TakesSeconds(t)
	modules := filepath.Join(sdktypes.Clients(t), "node_modules")
	var token string
	var asks []signed
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		must(t, a.e.EditSchema(dbs.Tasks, object{"Größe <\u2028>": object{"number": object{}}})) // its name is sent
		a.row(dbs.Tasks, nil)
		must(t, a.e.AddComment(a.e.Pages(dbs.Tasks)[0].ID, maria, "Ah"))
		time.Sleep(time.Minute)
		synctest.Wait()
		token = h.tokens[0]
		for _, e := range h.got {
			asks = append(asks, signed{e.raw, e.signature})
		}
	})
	sent := len(asks)
	body, signature := asks[0].Body, asks[0].Signature
	digits := strings.TrimPrefix(signature, "sha256=")
	more := bytes.Clone(body)
	more[0] = '['
	for _, s := range []string{
		"sha256=" + strings.ToUpper(digits), // the SDK takes it
		"", "sha256=", digits, "SHA256=" + digits, "sha1=" + digits, "sha256=" + digits[1:], signature + "0", " " + signature, signature + "\n",
		"sha256=" + strings.Repeat("0", 64), "sha256=" + digits[:63] + "g", "sha256=" + digits[:63] + "ı", "sha256=" + digits[1:] + digits[:1],
	} {
		asks = append(asks, signed{body, s})
	}
	asks = append(asks, signed{append(bytes.Clone(body), '\n'), signature}, signed{body[1:], signature}, signed{more, signature}, signed{nil, signature})

	bodies := [][]byte{body, {}, []byte("x"), []byte(`{"name": "Größe"}`), {0xff, 0xfe, 0}}
	ask := need(json.Marshal(map[string]any{"token": token, "signed": asks, "bodies": bodies}))(t)
	cmd := exec.Command(filepath.Join(modules, "node", "bin", "node"), filepath.Join("testdata", "signatures.mjs"), modules+string(filepath.Separator))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(ask), t.Output()
	out := need(cmd.Output())(t)
	var sdk struct {
		Taken      []bool
		Signatures []string
	}
	must(t, json.Unmarshal(out, &sdk))
	if sent < 4 || len(sdk.Taken) != len(asks) || len(sdk.Signatures) != len(bodies) {
		t.Fatalf("%d events; asked of %d and %d, and answered %s", sent, len(asks), len(bodies), out)
	}
	for i, ask := range asks {
		if i <= sent != sdk.Taken[i] {
			t.Errorf("the SDK takes %q of %q: %v", ask.Signature, ask.Body, sdk.Taken[i])
		}
		if ours := webhook.Verify(token, ask.Body, ask.Signature); ours != sdk.Taken[i] {
			t.Errorf("%q of %q is %v for the daemon, %v for the SDK", ask.Signature, ask.Body, ours, sdk.Taken[i])
		}
	}
	for i, body := range bodies {
		if !webhook.Verify(token, body, sdk.Signatures[i]) || webhook.Verify(token+"x", body, sdk.Signatures[i]) {
			t.Errorf("the SDK's signature %q of %q is not the one the daemon takes", sdk.Signatures[i], body)
		}
	}
}
