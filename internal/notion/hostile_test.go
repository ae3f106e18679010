package notion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/outbox/wording"
	"dibs/internal/testkit"
)

// secret is a token that servers in these tests repeat.
const secret = "ntn_0123456789abcdefghijklmnopqrstuv"

// calls are the calls of a client, on a database that was opened when the server
// still behaved.
func calls(w *world) map[string]func() error {
	tasks, log, id := w.tasks(notion.TaskSchema{}), w.log(w.databases.MeshLog), w.page(props{})
	ctx := w.Context()
	return map[string]func() error{
		"database": func() error { _, err := w.client.Tasks(ctx, w.databases.Tasks, notion.TaskSchema{}); return err },
		"query":    func() error { _, _, err := tasks.Query(ctx, notion.Query{}); return err },
		"get":      func() error { _, err := tasks.Get(ctx, id); return err },
		"write":    func() error { _, err := tasks.Write(ctx, id, claimed("Sandman", time.Now())); return err },
		"me":       func() error { _, err := w.client.Me(ctx); return err },
		"create":   func() error { return log.Create(ctx, wording.Entry{ID: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K", Title: "x"}) },
		"find":     func() error { _, err := log.Find(ctx, wording.Entry{ID: "01JDH4YJ2R6S1F2Q8Y1V4Q0Z7K"}); return err },
	}
}

// answer is a body with a status and a media type.
func answer(status int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// endless is a text without an end. With a pause, it comes a byte at a time.
type endless struct {
	ctx   context.Context
	pause time.Duration
}

func (e endless) Read(p []byte) (int, error) {
	if e.pause > 0 {
		p = p[:1]
		select {
		case <-time.After(e.pause):
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		}
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func (endless) Close() error { return nil }

// TestHostileAnswers gives every call an answer that is meant to do harm. Each
// must fail in one line of reasonable length, in reasonable time, without the
// token, as an error that the protocol can judge.
func TestHostileAnswers(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	body := func(status int, media, body string) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response { return answer(status, media, body) }
	}
	good := func(text string) func(*http.Request) *http.Response { return body(200, "application/json", text) }
	for name, serve := range map[string]func(req *http.Request) *http.Response{
		"endless": func(req *http.Request) *http.Response {
			r := answer(200, "application/json", "")
			r.Body = endless{ctx: req.Context()}
			return r
		},
		"endless and slow": func(req *http.Request) *http.Response {
			r := answer(200, "application/json", "")
			r.Body = endless{req.Context(), 100 * time.Millisecond}
			return r
		},
		"deep":              good(strings.Repeat("[", 1<<17) + strings.Repeat("]", 1<<17)),
		"deep in an object": good(`{"object":"page","parent":` + strings.Repeat(`{"parent":`, 1<<15) + "1" + strings.Repeat("}", 1<<15) + "}"),
		"null":              good("null"),
		"a number":          good("1e999999"),
		"nothing":           good(""),
		"not UTF-8":         good("{\"object\":\"\xff\xfe\"}"),
		"the token in an error": body(400, "application/json",
			`{"object":"error","code":"`+secret+`","message":"bad\n\u001b[2J Bearer `+secret+strings.Repeat("x", 1<<14)+`","request_id":"`+secret+`"}`),
		"the token in a page of HTML": func(*http.Request) *http.Response {
			r := answer(502, "text/html", "<p>"+secret)
			r.Header.Set("Cf-Ray", secret)
			return r
		},
		"unauthorized, with the token": body(401, "application/json", `{"object":"error","code":"unauthorized","message":"API token `+secret+` is invalid."}`),
	} {
		inWorld(t, func(w *world) {
			w.hostile(serve, func(call string, err error, took time.Duration) {
				if _, isFailed := errors.AsType[*claim.StoreError](err); !isFailed {
					w.Fatalf("%s, %s: err = %v, want a *claim.StoreError", name, call, err)
				}
				text := err.Error()
				// A read is tried four times, of 10 s each, with waits between them.
				if strings.Contains(text, secret) || strings.ContainsAny(text, "\n\x1b") || len(text) > 2000 || took > time.Minute {
					w.Errorf("%s, %s: after %v the error says %.3000q", name, call, took, text)
				}
			})
		})
	}
}

// hostile makes every call, each against a server that behaves until then, and
// shows how it ended.
func (w *world) hostile(serve func(*http.Request) *http.Response, ended func(call string, err error, took time.Duration)) {
	w.Helper()
	var turned atomic.Bool
	w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if turned.Load() {
			return serve(req), nil
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+w.emulator.Token())
		return next.RoundTrip(req)
	})
	w.client = w.another(notion.Options{Token: secret, Rate: 100, Burst: 100})
	list := calls(w)
	turned.Store(true)
	for name, call := range list {
		begin := time.Now()
		ended(name, call(), time.Since(begin))
		time.Sleep(10 * time.Minute) // whatever pause was asked for
	}
}

// TestRedirects has a server that sends requests, with the token in them, elsewhere.
func TestRedirects(t *testing.T) {
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(thief.URL, status))
		defer server.Close()
		_, err := need(notion.New(notion.Options{Token: secret, BaseURL: server.URL}))(t).Me(t.Context())
		failed(t, err, claim.Refused, claim.LandedNo, "sends requests elsewhere")
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests were made of another server", n)
	}
}

// TestEndlessLists has a server whose lists always go on.
func TestEndlessLists(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	inWorld(t, func(w *world) {
		w.page(props{})
		n := 0
		w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/query") {
				return next.RoundTrip(req)
			}
			n++
			return answer(200, "application/json", fmt.Sprintf(`{"object":"list","results":[],"has_more":true,"next_cursor":"%d"}`, n)), nil
		})
		tasks := w.tasks(notion.TaskSchema{})
		if _, _, err := tasks.Query(w.Context(), notion.Query{}); err == nil || !strings.Contains(err.Error(), "does not come to an end") {
			w.Errorf("err = %v", err)
		}
	})
}

// TestAnotherPage has a server that answers with a page that was not asked for.
func TestAnotherPage(t *testing.T) {
	inWorld(t, func(w *world) {
		id, other := w.page(props{}), w.page(props{})
		w.answering(string(id), func(body map[string]any) { body["id"] = string(other) })
		tasks := w.tasks(notion.TaskSchema{})
		_, err := tasks.Get(w.Context(), id)
		failed(w, err, claim.Unavailable, claim.LandedUnknown, "where page "+string(id)+" was asked for")
		_, err = tasks.Write(w.Context(), id, claimed("Sandman", dawn))
		failed(w, err, claim.Unavailable, claim.LandedUnknown)
	})
}

// TestWrongTypes replaces each part of good answers with a value of every other
// type. Nothing may panic, no page may be taken for another or for a free one, and
// no row may go missing unnoticed.
func TestWrongTypes(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	inWorld(t, func(w *world) {
		tasks := w.tasks(notion.TaskSchema{})
		dependency := w.page(props{})
		id := w.page(props{
			"Name": title("Fix it"), "status": status("IN_PROGRESS"), "claimed_by": richText("Oracle"),
			"claimed_at": day("2000-01-01T00:00:00Z"), "depends_on": relates(dependency), "priority": choice("high"),
		})
		var body []byte // of the answer that is given; of the last good one if it is not replaced
		replaced, wrong := false, ""
		w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if replaced {
				return answer(200, "application/json", string(body)), nil
			}
			resp, err := next.RoundTrip(req)
			if err == nil {
				body, err = io.ReadAll(resp.Body)
				resp.Body = io.NopCloser(bytes.NewReader(body))
			}
			return resp, err
		})
		client := w.another(notion.Options{Rate: 1000, Burst: 1000})
		open := func() (err error) {
			tasks, err = client.Tasks(w.Context(), w.databases.Tasks, notion.TaskSchema{})
			return err
		}
		must(w, open())
		known := tasks
		rows := func() error {
			rows, _, err := known.Query(w.Context(), notion.Query{})
			if err == nil && len(rows) != 2 {
				w.Errorf("%s: an answer of two rows was taken for one of %d", wrong, len(rows))
			}
			return err
		}
		page := func() error {
			r, err := known.Get(w.Context(), id)
			if err == nil && (r.Task.ID != id || r.Task.ClaimedBy != "Oracle" && !strings.Contains(wrong, "claimed_by")) {
				w.Errorf("%s: page %s was taken for page %s, claimed by %q", wrong, id, r.Task.ID, r.Task.ClaimedBy)
			}
			return err
		}
		for name, call := range map[string]func() error{"page": page, "query": rows, "database": open} {
			replaced = false
			must(w, call())
			good := slices.Clone(body)
			var document any
			must(w, json.Unmarshal(good, &document))
			tried, refused := 0, 0
			mutate(document, func(path string, whole any) {
				if name == "query" && strings.HasSuffix(path, "has_more") || strings.HasSuffix(path, "next_cursor") {
					return // see TestEndlessLists
				}
				body = need(json.Marshal(whole))(w)
				replaced, wrong = true, path
				tried++
				if err := call(); err != nil {
					refused++
					if text := err.Error(); strings.Contains(text, "\n") {
						w.Errorf("%s: %s: %q", name, path, text)
					}
				}
			})
			w.Logf("%s: %d answers with one wrong value, %d refused", name, tried, refused)
			if tried < 100 || refused == 0 {
				w.Errorf("%s: tried %d answers, %d were refused", name, tried, refused)
			}
		}
	})
}

// mutate calls f with the whole document for every value of it and every other
// type of value in its place.
func mutate(document any, f func(path string, whole any)) {
	root := []any{document}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		for _, wrong := range []any{nil, true, -1e300, "\x00wrong\u202e", []any{nil, 1, "x"}, map[string]any{"type": 7, "id": []any{}}} {
			set(wrong)
			f(path, root[0])
		}
		set(v)
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(fmt.Sprint(path, "/", i), v[i], func(x any) { v[i] = x })
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(path+"/"+key, v[key], func(x any) { v[key] = x })
			}
		}
	}
	walk("", document, func(x any) { root[0] = x })
}

// TestHugeTexts reads what nobody writes by hand.
func TestHugeTexts(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	inWorld(t, func(w *world) {
		id := w.page(props{"claimed_by": richText("Oracle")})
		huge := strings.Repeat("🙂", 1<<15)
		w.answering(string(id), func(body map[string]any) {
			for _, p := range body["properties"].(map[string]any) {
				p := p.(map[string]any)
				if kind := p["type"].(string); kind == "title" || kind == "rich_text" {
					p[kind] = []any{props{"type": "text", "text": props{"content": huge}, "plain_text": huge}}
				}
			}
		})
		got := w.get(w.tasks(notion.TaskSchema{}), id)
		for name, text := range map[string]string{"title": got.Title, "claimed_by": got.ClaimedBy, "claim_token": got.Token} {
			if len(text) > 8000 || !strings.HasSuffix(text, "🙂…") {
				w.Errorf("%s has %d bytes and ends in %q", name, len(text), text[max(0, len(text)-8):])
			}
		}
	})
}

// Answers with more in them than Notion sends are refused before they cost much
// memory, whatever they are made of.
func TestLargeAnswers(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	const most = 17 << 20
	list := func(rows string) string {
		return `{"object":"list","type":"page_or_database","has_more":false,"next_cursor":null,"results":[` + strings.TrimSuffix(rows, ",") + `]}`
	}
	for name, tt := range map[string]struct{ body, says string }{
		"many rows":                  {list(strings.Repeat(`{},`, most/3)), "longer than"},
		"many rows in less":          {list(strings.Repeat(`{},`, 5<<20)), "more than 100000 values"},
		"rows that are pages":        {list(strings.Repeat(`{"object":"page","properties":{}},`, 400_000)), "more than 100000 values"},
		"more rows than asked for":   {list(strings.Repeat(`{"object":"page"},`, 101)), "has 101 rows, and 100 were asked for"},
		"as many values as may be":   {list(strings.Repeat(`{},`, 49_000)), "rows"},
		"a long text":                {list(`{"object":"page","id":"` + strings.Repeat("x", most) + `"}`), "longer than"},
		"brackets in quotation only": {`{"object":"list","x":"` + strings.Repeat(`[,{\"`, 100_000) + `","results":[],"has_more":false}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				turned := false
				w.via(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
					if turned {
						return answer(200, "application/json", tt.body), nil
					}
					return next.RoundTrip(req)
				})
				tasks := w.tasks(notion.TaskSchema{})
				turned = true
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _, err := tasks.Query(w.Context(), notion.Query{})
				runtime.ReadMemStats(&after)
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("err = %.300v, want %q", err, tt.says)
				}
				if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; cost > 300 { // all tries together
					t.Errorf("it cost %d MB", cost)
				}
			})
		})
	}
}
