package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/daemon"
	"dibs/internal/door/server"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
	"dibs/internal/notion/emulator"
	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"
)

func TestMain(m *testing.M) {
	// A bubble makes much garbage, and little of it lives: collecting every few megabytes takes a
	// quarter of the time.
	debug.SetGCPercent(400)
	os.Exit(testkit.RunInMemory(m))
}

// world is a Notion and its daemons. Everything runs in one synctest bubble, in virtual time.
type world struct {
	*testing.T
	notion *emulator.Emulator
	tasks  string // the id of the tasks database
	// tap, if set, wraps the daemons' listeners.
	tap func(net.Listener) net.Listener
	// recorder, if set, records what the daemons exchange with Notion.
	recorder *sdktypes.Recorder
	// wires is the network between daemons with a shared journal.
	wires wires

	mu    sync.Mutex
	nodes []*node // started so far
}

// inWorld runs a test in a world with an empty board and a server with that rate limit, 0 for none.
// At the end it stops the remaining daemons.
func inWorld(t *testing.T, limit int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		notion, err := emulator.New(emulator.Options{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		defer notion.Close()
		dbs, err := notion.Seed("empty")
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, notion: notion, tasks: dbs.Tasks}
		defer w.stop() // cleanup functions run outside the bubble
		test(w)
	})
}

// stop stops the remaining daemons, the last one first.
func (w *world) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range slices.Backward(w.nodes) {
		n.stop()
	}
}

// add adds a task to the board.
func (w *world) add(title string, props map[string]any) string {
	w.Helper()
	all := map[string]any{"Name": text("title", title)}
	for name, value := range props {
		all[name] = value
	}
	id, err := w.notion.CreatePage(w.tasks, all)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// mustDo fails the test if there is an error.
func mustDo(w *world, err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// edit edits a page in Notion, as a person.
func (w *world) edit(id string, props map[string]any) {
	w.Helper()
	mustDo(w, w.notion.EditPage(id, props))
}

func (w *world) page(id string) emulator.Page {
	w.Helper()
	p, ok := w.notion.Page(id)
	if !ok {
		w.Fatalf("no page %s", id)
	}
	return p
}

// requests returns the requests since the last reset, as "METHOD kind".
func (w *world) requests() []string {
	var out []string
	for _, r := range w.notion.Requests() {
		out = append(out, kindOf(r))
	}
	return out
}

func kindOf(r emulator.Request) string {
	switch {
	case strings.HasSuffix(r.Path, "/query"):
		return r.Method + " query"
	case strings.HasPrefix(r.Path, "/v1/pages/"):
		return r.Method + " page"
	}
	return r.Method + " " + strings.TrimPrefix(r.Path, "/v1/")
}

// mesh and work return the rows of a log as "event: agent".
func (w *world) mesh() []string {
	return rows(w.notion.Pages(w.notion.Databases().MeshLog), "event")
}
func (w *world) work() []string {
	return rows(w.notion.Pages(w.notion.Databases().TaskLog), "outcome")
}

func rows(pages []emulator.Page, what string) []string {
	out := []string{}
	for _, p := range pages {
		out = append(out, p.Select(what)+": "+p.Text("agent"))
	}
	slices.Sort(out)
	return out
}

// node is one daemon and a client of its socket.
type node struct {
	*client.Client
	w      *world
	dir    string
	stop   func()       // an orderly stop
	failed func() error // waits a minute for an unexpected end
	daemon *daemon.Daemon
	dial   func(context.Context) (net.Conn, error)
}

// databases returns the emulator's seeded databases.
func databases(notion *emulator.Emulator) config.Databases {
	dbs := notion.Databases()
	return config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
}

// options returns the settings; change may alter the configuration.
func (w *world) options(change func(*config.Config)) daemon.Options {
	c := config.Default()
	c.Notion.Token, c.Databases = config.Secret(w.notion.Token()), databases(w.notion)
	c.StateDir = filepath.Join(w.TempDir(), "state")
	c.Claim.Breaker.Failures = 0 // many tests fail tasks in a row
	if change != nil {
		change(&c)
	}
	transport := w.notion.Client().Transport
	if w.recorder != nil {
		transport = w.recorder.Over(transport)
	}
	return daemon.Options{
		Config: c, Version: "test", Transport: transport, Network: &w.wires,
		Log: slog.New(slog.NewTextHandler(w.Output(), nil)),
	}
}

// daemon starts a daemon; change may alter its configuration.
func (w *world) daemon(change func(*config.Config)) *node {
	w.Helper()
	return w.start(w.options(change))
}

// start starts a daemon with those options, on its own listener.
func (w *world) start(o daemon.Options) *node {
	w.Helper()
	n, err := w.begin(o)
	mustDo(w, err)
	return n
}

// begin is start for a daemon that may refuse to begin.
func (w *world) begin(o daemon.Options) (*node, error) {
	w.Helper()
	mustDo(w, journaltest.Make(filepath.Join(o.Config.StateDir, journal.FileName)))
	pipe := server.NewPipe()
	o.Listener = pipe
	if w.tap != nil {
		o.Listener = w.tap(pipe)
	}
	d, err := daemon.Start(w.Context(), o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	n := &node{Client: client.Over("pipe", pipe.Dial), w: w, dir: o.Config.StateDir, daemon: d, dial: pipe.Dial}
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
	n.failed = func() error {
		select {
		case err := <-done:
			stopped = true
			return err
		case <-time.After(time.Minute):
			n.stop()
			return errors.New("it goes on")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, n)
	return n, nil
}

// get requests an address of the socket and returns the answer's body.
func (n *node) get(path string) string {
	n.w.Helper()
	web := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		DisableKeepAlives: true,
	}}
	resp, err := web.Get("http://dibs" + path)
	if err != nil {
		n.w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.w.Fatalf("%s: %d %s, %v", path, resp.StatusCode, body, err)
	}
	return string(body)
}

// claim claims a task, the next ready one if id is empty.
func (n *node) claim(agent, id string) (api.Claim, error) {
	return n.Claim(n.w.Context(), api.ClaimRequest{Agent: agent, Task: id}, "")
}

// mustClaim fails the test unless the claim is granted.
func (n *node) mustClaim(agent, id string) api.Claim {
	n.w.Helper()
	cl, err := n.claim(agent, id)
	if err != nil {
		n.w.Fatalf("%s: %v", agent, err)
	}
	return cl
}

// complete completes the work.
func (n *node) complete(cl api.Claim) error {
	_, err := n.Complete(n.w.Context(), string(cl.ID), api.CompleteRequest{Agent: cl.Agent, Summary: "done"}, "")
	return err
}

// code returns the code of a problem, or the error's text.
func code(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return string(p.Code)
	}
	return fmt.Sprint(err)
}

func denied(c claim.Code) string { return string(c) }

// Property values in the form of Notion's API.
func text(kind, content string) any {
	spans := []any{}
	if content != "" {
		spans = append(spans, map[string]any{"text": map[string]any{"content": content}})
	}
	return map[string]any{kind: spans}
}

func option(kind, name string) any { return map[string]any{kind: map[string]any{"name": name}} }

func date(t time.Time) any {
	return map[string]any{"date": map[string]any{"start": t.UTC().Format(time.RFC3339)}}
}

func number(n float64) any { return map[string]any{"number": n} }

func relation(ids ...string) any {
	refs := []any{}
	for _, id := range ids {
		refs = append(refs, map[string]any{"id": id})
	}
	return map[string]any{"relation": refs}
}
