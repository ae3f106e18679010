package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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

	"github.com/google/go-cmp/cmp"
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
	mustDo(w, err)
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

// over returns a client whose connections are made anew for each request.
func over(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true,
	}}
}

// get requests an address of the socket and returns the answer's body.
func (n *node) get(path string) string {
	n.w.Helper()
	resp, err := over(n.dial).Get("http://dibs" + path)
	mustDo(n.w, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.w.Fatalf("%s: %d %s, %v", path, resp.StatusCode, body, err)
	}
	return string(body)
}

// claim claims a task, the next ready one if id is empty.
func (n *node) claim(agent, id string) (api.Claim, error) {
	return n.waitFor(agent, id, 0)
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

// call asks a daemon for something, and mustCall fails the test if there is an error.
func call[In, Out any](n *node, op api.Op[In, Out], in In) (Out, error) {
	return client.Do(n.w.Context(), n.Client, op, in)
}

func mustCall[In, Out any](n *node, op api.Op[In, Out], in In) Out {
	n.w.Helper()
	out, err := call(n, op, in)
	mustDo(n.w, err)
	return out
}

// waitFor claims a task, the next ready one if id is empty, and waits for it.
func (n *node) waitFor(agent, id string, most time.Duration) (api.Claim, error) {
	return call(n, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Task: id, WaitSeconds: most.Seconds()}))
}

// complete completes the work.
func (n *node) complete(cl api.Claim) error {
	_, err := n.end(cl)
	return err
}

// end is complete with the answer.
func (n *node) end(cl api.Claim) (api.Claim, error) {
	return call(n, api.OpComplete, api.On(string(cl.ID), "", api.CompleteRequest{Agent: cl.Agent, Summary: "done"}))
}

func (n *node) renew(cl api.Claim) (api.Claim, error) {
	return call(n, api.OpRenew, api.On(string(cl.ID), "", api.RenewRequest{}))
}

func (n *node) release(id string) error {
	_, err := call(n, api.OpRelease, api.On(id, "", api.StopRequest{}))
	return err
}

// seen returns a claim as the daemon has it.
func (n *node) seen(cl api.Claim) api.Claim {
	n.w.Helper()
	return mustCall(n, api.OpGetClaim, api.GetClaimInput{ID: string(cl.ID), After: api.EventsFuture})
}

// same compares what is to be the same.
func same[T any](w *world, what string, want, got T) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// refused checks that something was refused with a code, any if want is empty, and in one line that
// has these parts.
func (w *world) refused(what string, err error, want string, parts ...string) {
	w.Helper()
	says := fmt.Sprint(err)
	lacks := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(says, part) })
	if err == nil || want != "" && code(err) != want || lacks || strings.Contains(says, "\n") {
		w.Errorf("%s: %v, want %s and %q", what, err, want, parts)
	}
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

// wires is the network between members in a bubble.
type wires struct {
	mu   sync.Mutex
	at   map[string]*server.Pipe
	cut  map[string]bool // unreachable addresses
	open map[string][]net.Conn
}

// plug is a listener; closing it frees its address.
type plug struct {
	*server.Pipe
	address string
}

func (p plug) Addr() net.Addr { return p }

func (p plug) Network() string { return "wires" }

func (p plug) String() string { return p.address }

// Listen implements member.Network.
func (w *wires) Listen(_ context.Context, address string) (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at, w.cut, w.open = make(map[string]*server.Pipe), make(map[string]bool), make(map[string][]net.Conn)
	}
	w.at[address] = server.NewPipe()
	return plug{w.at[address], address}, nil
}

// Dial implements member.Network.
func (w *wires) Dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	to, cut := w.at[address], w.cut[address]
	w.mu.Unlock()
	if to == nil || cut {
		return nil, errors.New("no way to " + address)
	}
	conn, err := to.Dial(ctx)
	if err == nil {
		w.mu.Lock()
		w.open[address] = append(w.open[address], conn)
		w.mu.Unlock()
	}
	return conn, err
}

// sever closes the connections to an address and, with cut, makes it unreachable.
func (w *wires) sever(address string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[address] = cut
	for _, conn := range w.open[address] {
		conn.Close()
	}
	w.open[address] = nil
}

// logsAgree checks that a Notion log has the facts that the daemons recorded for it, each once, and
// nothing else.
func (w *world) logsAgree(nodes ...*node) {
	w.Helper()
	want := map[claim.Log][]string{}
	for _, n := range nodes {
		for _, e := range mustCall(n, api.OpLog, api.LogInput{Limit: 1000}).Entries {
			for _, log := range (claim.Fact{Kind: e.Kind, Remote: e.Remote}).Logs() {
				want[log] = append(want[log], e.ID)
			}
		}
	}
	dbs := w.notion.Databases()
	for log, db := range map[claim.Log]string{claim.MeshLog: dbs.MeshLog, claim.TaskLog: dbs.TaskLog} {
		var got []string
		for _, p := range w.notion.Pages(db) {
			got = append(got, p.Text("entry_id"))
		}
		slices.Sort(want[log])
		slices.Sort(got)
		same(w, fmt.Sprintf("entries of the %s log on record, and in Notion", log), want[log], got)
	}
}

// noBlindRepeats checks that no daemon wrote a page twice without reading it in between, or created
// an entry again without looking it up, and that the transport repeated no request.
func (w *world) noBlindRepeats(lines ...*line) {
	w.Helper()
	sent := 0
	for _, l := range lines {
		blind := make(map[string]bool) // pages, and bodies of entries, written and not read since
		for _, r := range l.requests() {
			switch {
			case r.method == http.MethodPost && strings.HasSuffix(r.path, "/query"):
				if id := soughtEntry.FindStringSubmatch(r.body); id != nil {
					maps.DeleteFunc(blind, func(body string, _ bool) bool { return strings.Contains(body, id[1]) })
				}
			case r.method == http.MethodGet:
				delete(blind, r.path)
			default:
				sent++
				what := r.path
				if r.method == http.MethodPost {
					what = r.body
				}
				if blind[what] {
					w.Errorf("daemon %s repeated without a look: %s %s %s", l.name, r.method, r.path, r.body)
				}
				blind[what] = true
			}
		}
	}
	arrived := 0
	for _, r := range w.notion.Requests() {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/query") {
			arrived++
		}
	}
	if arrived != sent {
		w.Errorf("%d writes arrived, %d were sent", arrived, sent)
	}
}

// soughtEntry matches the lookup of an entry.
var soughtEntry = regexp.MustCompile(`"equals":"([0-9A-HJKMNP-TV-Z]{26})"`)

// line is a daemon's connection to Notion: it records requests, and can limit faults to one daemon.
type line struct {
	name string
	next http.RoundTripper

	mu   sync.Mutex
	sent []sentRequest
}

type sentRequest struct{ method, path, body string }

// lineHeader identifies a request's line.
const lineHeader = "X-Line"

// onLine starts a daemon on its own line.
func (w *world) onLine(name string, change func(*config.Config)) (*node, *line) {
	w.Helper()
	o := w.options(change)
	l := &line{name: name, next: o.Transport}
	o.Transport = l
	return w.start(o), l
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	note := sentRequest{method: r.Method, path: r.URL.Path}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		note.body = string(data)
	}
	l.mu.Lock()
	l.sent = append(l.sent, note)
	l.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set(lineHeader, l.name)
	return l.next.RoundTrip(r)
}

// sends reports whether r came over this line.
func (l *line) sends(r *http.Request) bool { return r.Header.Get(lineHeader) == l.name }

func (l *line) requests() []sentRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

// few returns the cases to test: with -short about n of them, evenly spread, else all.
func few[T any](n int, cases []T) []T {
	if !testing.Short() || len(cases) <= n {
		return cases
	}
	var some []T
	for i := range n {
		some = append(some, cases[i*len(cases)/n])
	}
	return some
}

// inTurn reports whether to play case i of one kind with case j of another, of which there are n:
// each case of the longer kind in one of the shorter, in turn, and all pairs with TEST_LONG=all.
func inTurn(i, j, n int) bool { return testkit.InFull() || i%n == j }

// fewOf is few for named cases.
func fewOf[T any](n int, m map[string]T) map[string]T {
	some := make(map[string]T)
	for _, name := range few(n, slices.Sorted(maps.Keys(m))) {
		some[name] = m[name]
	}
	return some
}
