package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// exchange is a request that a script's daemon expects, and its answer. A file lists them in order,
// with empty lines between them, each as
//
//	METHOD PATH [BODY]
//	[Header: value …]
//	STATUS BODY
//
// The key * matches any key, and must then be the same everywhere. The answer is a template:
// {{in "12m"}} is the time in twelve minutes, and {{task}} and {{claim}} are common pieces of JSON.
type exchange struct {
	method, path, body string
	header             map[string]string
	status             int
	answer             *template.Template
}

const (
	taskJSON  = `"id":"11111111-2222-3333-4444-555555555555","title":"Fix the login","url":"https://notion.example/1","status":"IN_PROGRESS","priority":"high"`
	claimJSON = `"id":"01KA8XQ5V8ZJ6N3T4R7W9Y2M1D","agent":"Sandman","task":{` + taskJSON + `}`
)

var pieces = template.FuncMap{
	"in": func(d string) (string, error) {
		length, err := time.ParseDuration(d)
		return time.Now().Add(length).UTC().Format("2006-01-02T15:04:05.000Z"), err
	},
	"task":  func() string { return taskJSON },
	"claim": func() string { return claimJSON },
}

func readExchanges(text string) ([]exchange, error) {
	var list []exchange
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		e := exchange{header: make(map[string]string)}
		e.method, e.path, _ = strings.Cut(lines[0], " ")
		e.path, e.body, _ = strings.Cut(e.path, " ")
		for _, line := range lines[1 : len(lines)-1] {
			name, value, _ := strings.Cut(line, ": ")
			e.header[name] = value
		}
		status, answer, _ := strings.Cut(lines[len(lines)-1], " ")
		var err error
		if e.status, err = strconv.Atoi(status); err != nil {
			return nil, fmt.Errorf("in %q: %w", block, err)
		}
		if e.answer, err = template.New("answer").Funcs(pieces).Parse(answer); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// fakeDaemon answers exchanges, each once and in order. It fails the test for unexpected requests,
// and for exchanges that did not happen.
type fakeDaemon struct {
	t      *testing.T
	script string
	mu     sync.Mutex
	left   []exchange
	key    string // the key that matched *
}

func startDaemon(t *testing.T, ts *testscript.TestScript, file string) {
	exchanges, err := readExchanges(ts.ReadFile(file))
	ts.Check(err)
	d := &fakeDaemon{t: t, script: ts.Name(), left: exchanges}
	l, err := net.Listen("unix", ts.Getenv("DIBS_SOCKET"))
	ts.Check(err)
	s := &http.Server{Handler: d}
	go s.Serve(l)
	ts.Defer(func() {
		s.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, e := range d.left {
			t.Errorf("%s: the daemon was not asked: %s %s %s", d.script, e.method, e.path, e.body)
		}
	})
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Errorf("%s: %v", d.script, err)
	}
	if len(d.left) == 0 {
		d.t.Errorf("%s: the daemon was asked once more: %s %s %s", d.script, r.Method, r.RequestURI, body)
		return
	}
	e := d.left[0]
	d.left = d.left[1:]
	got := fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)
	if want := fmt.Sprintf("%s %s %s", e.method, e.path, e.body); got != want {
		d.t.Errorf("%s: request (-want +got):\n%s", d.script, gocmp.Diff(want, got))
	}
	for _, name := range []string{"Idempotency-Key"} {
		got := r.Header.Get(name)
		if e.header[name] == "*" {
			d.key = cmp.Or(d.key, got)
			e.header[name] = cmp.Or(d.key, "any key")
		}
		if got != e.header[name] {
			d.t.Errorf("%s: %s %s has %s: %q, want %q", d.script, e.method, e.path, name, got, e.header[name])
		}
	}
	var answer bytes.Buffer
	if err := e.answer.Execute(&answer, nil); err != nil || !json.Valid(answer.Bytes()) {
		d.t.Errorf("%s: the answer %s is no JSON (%v)", d.script, &answer, err)
	}
	media := "application/json"
	if e.status >= http.StatusBadRequest {
		media = "application/problem+json"
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(e.status)
	w.Write(answer.Bytes())
}
