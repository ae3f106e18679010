package emulator_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"testing"

	"dibs/internal/notion/emulator"
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
