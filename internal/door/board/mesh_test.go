package board_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/cli"
	"dibs/internal/door/board"
	"dibs/internal/notion/emulator"
	"dibs/internal/task"
	"dibs/internal/testkit"
)

// asDibs in its environment makes the test binary dibs, so that no program has to be built.
const asDibs = "TEST_AS_DIBS=1"

// dibs is a command of dibs, as a process of its own.
func dibs(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self := testkit.Got(os.Executable())(t)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asDibs)
	return cmd
}

func TestMain(m *testing.M) {
	// The tests and dibs have small heaps. To collect them as often as usual takes a fifth of the processor.
	debug.SetGCPercent(400)
	if name, _, _ := strings.Cut(asDibs, "="); os.Getenv(name) != "" {
		// Like cmd/dibs.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	// Tests wait for pages and daemons more than they take the processor: more run side by side.
	flag.Lookup("test.parallel").Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	code := m.Run()
	closeBrowser()
	os.Exit(code)
}

// mesh is a board in Notion, a daemon that is a process of its own, and the board in the browser that shows them.
type mesh struct {
	t      *testing.T
	dir    string // a short path, for the socket
	notion *emulator.Emulator
	url    string
	daemon *exec.Cmd
	env    []string // of programs, besides the usual
	client *client.Client
	board  *board.Board
	link   string // opens the board, once
	log    *lines // what the board logs
}

// newMesh starts all of it.
func newMesh(t *testing.T, seed string, tasks int) *mesh {
	t.Helper()
	dir, err := os.MkdirTemp("", "dibs-b-")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &mesh{t: t, dir: dir, log: new(lines)}
	if m.notion, err = emulator.New(emulator.Options{}); err != nil {
		t.Fatal(err)
	}
	testkit.Got(m.notion.Seed(seed))(t)
	if tasks > 0 {
		testkit.Must(t, m.notion.AddTasks(tasks))
	}
	server := httptest.NewServer(m.notion)
	t.Cleanup(func() {
		server.Close()
		m.notion.Close()
	})
	m.url = server.URL
	m.client = client.New(filepath.Join(dir, "dibs.sock"))
	m.serve()
	m.show()
	return m
}

// show serves the board.
func (m *mesh) show() {
	m.t.Helper()
	l := testkit.Got(net.Listen("tcp", "127.0.0.1:0"))(m.t)
	m.board = board.New(board.Options{Daemon: m.client, User: "maria", Log: slog.New(slog.NewTextHandler(m.log, nil))})
	m.link = m.board.Link("http://" + l.Addr().String())
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- m.board.Serve(ctx, l) }()
	m.t.Cleanup(func() {
		stop()
		err := <-served
		testkit.Check(m.t, err == nil, "the board ended with %v", err)
	})
}

// start starts dibs and reads the line that it prints once it serves.
func (m *mesh) start(log io.Writer, where any, args ...string) *exec.Cmd {
	m.t.Helper()
	cmd := dibs(m.t, args...)
	dbs := m.notion.Databases()
	cmd.Env = []string{
		asDibs, "HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=", "GORACE=atexit_sleep_ms=10",
		"DIBS_STATE_DIR=" + m.dir, "DIBS_SOCKET=" + filepath.Join(m.dir, "dibs.sock"), "DIBS_NOTION_BASE_URL=" + m.url, "NOTION_TOKEN=" + m.notion.Token(),
		"DIBS_DATABASES_TASKS=" + dbs.Tasks, "DIBS_DATABASES_TASK_LOG=" + dbs.TaskLog, "DIBS_DATABASES_MESH_LOG=" + dbs.MeshLog,
		"DIBS_CLAIM_EXCLUSIVE=true", "DIBS_CLAIM_WRITE_WINDOW=20s", "DIBS_CLAIM_SETTLE=0s",
		"DIBS_NOTION_RATE=200", "DIBS_NOTION_BURST=200", "DIBS_SYNC_INTERVAL=1s", "DIBS_SCHEDULE_SWEEP=@every 1h",
	}
	cmd.Env = append(cmd.Env, m.env...)
	cmd.Stderr = log
	out := testkit.Got(cmd.StdoutPipe())(m.t)
	testkit.Must(m.t, cmd.Start())
	m.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	testkit.Require(m.t, err == nil, "dibs %s did not come up: %v\n%s", args[0], err, log)
	if err := json.Unmarshal(line, where); err != nil {
		m.t.Fatalf("dibs %s said %q: %v", args[0], line, err)
	}
	return cmd
}

// serve starts the daemon, and waits until it has read the board.
func (m *mesh) serve() {
	m.t.Helper()
	m.daemon = m.start(new(lines), new(struct{}), "serve", "--json")
	m.until("the daemon has read the board", func() bool {
		s, err := client.Do(m.t.Context(), m.client, api.OpStatus, struct{}{})
		return err == nil && !s.Mirror.SyncedAt.IsZero() && s.Mirror.Syncing == nil
	})
}

// kill ends the daemon with SIGKILL.
func (m *mesh) kill() {
	m.daemon.Process.Kill()
	m.daemon.Wait()
}

// until waits, a bounded number of times, for something that another process does.
func (m *mesh) until(what string, done func() bool) {
	m.t.Helper()
	for range 1200 {
		if done() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	m.t.Fatalf("%s: not within a minute", what)
}

// claim has an agent claim the next task, or that one.
func (m *mesh) claim(agent, task string) api.Claim {
	m.t.Helper()
	return do(m, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: agent, Task: task}))
}

// do asks the daemon, and ends the test if it refuses.
func do[In, Out any](m *mesh, op api.Op[In, Out], in In) Out {
	m.t.Helper()
	return testkit.Got(client.Do(m.t.Context(), m.client, op, in))(m.t)
}

func (m *mesh) sync() {
	m.t.Helper()
	do(m, api.OpSync, api.Keyed("", &api.SyncRequest{}))
}

// reviews starts the daemon anew, on a board that has a status for reviews.
func (m *mesh) reviews() {
	m.t.Helper()
	testkit.Must(m.t, m.notion.AddOption(m.notion.Databases().Tasks, "status", "REVIEW"))
	m.kill()
	m.env = append(m.env, "DIBS_TASKS_STATUSES_REVIEW=REVIEW")
	m.serve()
}

// add puts a task on the board.
func (m *mesh) add(title string, properties map[string]any) string {
	m.t.Helper()
	all := titled(title)
	for name, value := range properties {
		all[name] = value
	}
	id := testkit.Got(m.notion.CreatePage(m.notion.Databases().Tasks, all))(m.t)
	return id
}

func titled(s string) map[string]any {
	return map[string]any{"Name": map[string]any{"title": []any{map[string]any{"text": map[string]any{"content": s}}}}}
}

func richText(s string) any {
	return map[string]any{"rich_text": []any{map[string]any{"text": map[string]any{"content": s}}}}
}

func status(s string) map[string]any {
	return map[string]any{"status": map[string]any{"status": map[string]any{"name": s}}}
}

// lines is what a process says, which may be read while it goes on.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lines) has(s string) bool { return strings.Contains(l.String(), s) }

// nowhere is a daemon that cannot be reached.
func nowhere() *client.Client {
	return client.Over("/nowhere/dibs.sock", func(context.Context) (net.Conn, error) { return nil, errors.New("nobody is there") })
}

// visitor asks a board for pages, as a browser would.
type visitor struct {
	t      *testing.T
	server *httptest.Server
	cookie *http.Cookie
}

// ask sends a request with headers, each as NAME: VALUE, and returns the answer and its body.
func (v *visitor) ask(method, path string, header ...string) (*http.Response, string) {
	v.t.Helper()
	r := testkit.Got(http.NewRequestWithContext(v.t.Context(), method, v.server.URL+path, nil))(v.t)
	return v.send(r, header...)
}

// post sends a form.
func (v *visitor) post(path string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	r := testkit.Got(http.NewRequestWithContext(v.t.Context(), "POST", v.server.URL+path, strings.NewReader(form.Encode())))(v.t)
	return v.send(r, "Origin: "+v.server.URL, "Content-Type: application/x-www-form-urlencoded")
}

func (v *visitor) send(r *http.Request, header ...string) (*http.Response, string) {
	v.t.Helper()
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	if v.cookie != nil {
		r.AddCookie(v.cookie)
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // which follows nothing
	testkit.Must(v.t, err)
	defer resp.Body.Close()
	body := testkit.Got(io.ReadAll(resp.Body))(v.t)
	return resp, string(body)
}

func newVisitor(t *testing.T, o board.Options) (*board.Board, *visitor) {
	t.Helper()
	o.Daemon, o.User = nowhere(), "maria"
	b := board.New(o)
	server := httptest.NewServer(b.Handler())
	t.Cleanup(server.Close)
	return b, &visitor{t: t, server: server}
}

// enter opens the board by its link.
func (v *visitor) enter(b *board.Board) {
	v.t.Helper()
	link := strings.TrimPrefix(b.Link(v.server.URL), v.server.URL)
	v.ask("HEAD", link) // which uses nothing up
	resp, body := v.ask("GET", link)
	cookies := resp.Cookies()
	testkit.Require(v.t, resp.StatusCode == 200 && len(cookies) == 1 && strings.Contains(body, `<link rel="icon"`),
		"the link is answered with %s and the cookies %v", resp.Status, cookies)
	v.cookie = cookies[0]
}

func TestLinkOpensOnce(t *testing.T) {
	b, v := newVisitor(t, board.Options{})
	for _, path := range []string{"/", "/board.json", "/live", "/tasks/x", "/enter", "/enter?token=", "/enter?token=AAAA"} {
		resp, body := v.ask("GET", path)
		testkit.Check(t, (resp.StatusCode == 401 || resp.StatusCode == 403) && len(resp.Cookies()) <= 0 && strings.Contains(body, "link"),
			"without a link, %s is answered with %s: %s", path, resp.Status, body)
	}
	first := b.Link(v.server.URL)
	testkit.Check(t, b.Link(v.server.URL) == first, "a link that was not used has changed")
	testkit.Check(t, len(b.Entered()) <= 0, "a link that was not used was")
	v.enter(b)
	if !v.cookie.HttpOnly || v.cookie.SameSite != http.SameSiteStrictMode || v.cookie.Path != "/" || len(b.Entered()) != 1 {
		t.Errorf("the cookie is %v, entered %d times", v.cookie, len(b.Entered()))
	}
	resp, _ := v.ask("GET", "/")
	testkit.Check(t, resp.StatusCode == 200, "with the cookie, the board is answered with %s", resp.Status)
	stranger := &visitor{t: t, server: v.server}
	if resp, _ := stranger.ask("GET", strings.TrimPrefix(first, v.server.URL)); resp.StatusCode != 403 || len(resp.Cookies()) > 0 {
		t.Errorf("a used link is answered with %s and %v", resp.Status, resp.Cookies())
	}
	testkit.Check(t, b.Link(v.server.URL) != first, "the next link is the one that was used")
	stranger.cookie = &http.Cookie{Name: v.cookie.Name, Value: v.cookie.Value + "x"}
	if resp, _ := stranger.ask("GET", "/"); resp.StatusCode != 401 {
		t.Errorf("a wrong cookie is answered with %s", resp.Status)
	}
}

func TestWhoMayAsk(t *testing.T) {
	b, v := newVisitor(t, board.Options{Hosts: []string{"wall.example"}})
	v.enter(b)
	own := v.server.URL
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(own, "http://"))
	for _, tt := range []struct {
		method, path string
		header       []string
		want         int
	}{
		{"GET", "/", nil, 200},
		{"GET", "/", []string{"Host: localhost:" + port}, 200},
		{"GET", "/", []string{"Host: [::1]:" + port}, 200},
		{"GET", "/", []string{"Host: wall.example:" + port}, 200},
		{"GET", "/", []string{"Host: evil.example:" + port}, 421}, // a name that somebody had point here
		{"GET", "/", []string{"Host: localhost.evil.example"}, 421},
		{"GET", "/", []string{"Host: 127.0.0.1.evil.example"}, 421},
		{"GET", "/static/board.css", []string{"Host: evil.example"}, 421},
		{"GET", "/board.json", []string{"Origin: https://evil.example"}, 403},
		{"GET", "/board.json", []string{"Origin: null"}, 403},
		{"GET", "/board.json", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		{"GET", "/live", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"}, 403}, // another port of this host
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"POST", "/sweep", nil, 403}, // browsers say where a change comes from
		{"POST", "/sweep", []string{"Origin: null"}, 403},
		{"POST", "/sweep", []string{"Origin: http://127.0.0.1:1"}, 403},
		{"POST", "/sweep", []string{"Origin: https://evil.example"}, 403},
		{"POST", "/sweep", []string{"Origin: " + own}, 502}, // let in, and there is no daemon
	} {
		if tt.header == nil {
			tt.header = []string{"Accept: */*"}
		}
		resp, _ := v.ask(tt.method, tt.path, tt.header...)
		got := resp.StatusCode
		testkit.Check(t, got == tt.want, "%s %s %q: %d, want %d", tt.method, tt.path, tt.header, got, tt.want)
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s %s: the policy is %q", tt.method, tt.path, policy)
		}
		testkit.Check(t, resp.Header.Get("X-Content-Type-Options") == "nosniff", "%s %s: the header lacks nosniff", tt.method, tt.path)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	b, v := newVisitor(t, board.Options{ReadOnly: true})
	v.enter(b)
	for _, path := range []string{"/sweep", "/tasks/2f835e81-2bbb-81b6-9700-e18108a40b1f/release"} {
		for _, method := range []string{"GET", "POST"} {
			resp, _ := v.ask(method, path, "Origin: "+v.server.URL)
			testkit.Check(t, resp.StatusCode == 404, "%s %s is answered with %s", method, path, resp.Status)
		}
	}
	_, body := v.ask("GET", "/")
	testkit.Check(t, !strings.Contains(body, "weep"), "the page of a board that changes nothing offers to sweep")
}

// TestNoDaemon asks for every page while there is no daemon.
func TestNoDaemon(t *testing.T) {
	b, v := newVisitor(t, board.Options{})
	v.enter(b)
	for path, want := range map[string]int{
		"/": 200, "/tasks": 200, "/activity": 200, "/search?q=x": 200, "/list?status=OPEN": 200, "/list?status=LOST": 404, "/list?status=OPEN&from=-1": 404,
		"/agents": 502, "/insights": 502, "/activity?range=9y": 404, "/health": 502, "/tasks?task=nothing": 200,
		"/tasks/nothing": 404, "/tasks/2f835e81-2bbb-81b6-9700-e18108a40b1f": 502, "/nowhere": 404, "/static/": 404, "/static/nothing": 404,
	} {
		resp, body := v.ask("GET", path)
		testkit.Check(t, resp.StatusCode == want, "%s is answered with %s, want %d", path, resp.Status, want)
		testkit.Check(t, want != 502 || strings.Contains(body, "nobody is there"), "%s does not say why: %s", path, body)
	}
}

// TestSilentDaemon asks for a page while the daemon hears and does not answer.
func TestSilentDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board.New(board.Options{User: "maria", Daemon: client.Over("/silent/dibs.sock", func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there)
			return here, nil
		})})
		ask := func(path string, cookies ...*http.Cookie) *http.Response {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil)
			for _, c := range cookies {
				r.AddCookie(c)
			}
			w := httptest.NewRecorder()
			b.Handler().ServeHTTP(w, r)
			return w.Result()
		}
		cookie := ask(strings.TrimPrefix(b.Link("http://localhost"), "http://localhost")).Cookies()[0]
		for _, path := range []string{"/health", "/agents", "/insights", "/tasks/2f835e81-2bbb-81b6-9700-e18108a40b1f"} {
			began := time.Now()
			resp := ask(path, cookie)
			body, _ := io.ReadAll(resp.Body)
			if took := time.Since(began); resp.StatusCode != 502 || took > 10*time.Second || !strings.Contains(string(body), "the daemon takes too long to answer") {
				t.Errorf("%s is answered with %s after %v: %s", path, resp.Status, took, body)
			}
		}
	})
}

// TestClusterIsShown looks at the health of a daemon that is a member of a cluster, also while the cluster cannot be asked.
func TestClusterIsShown(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, kind, answer := 200, "application/json", any(api.Status{Cluster: &api.ClusterStatus{Name: "north", Leader: "north"}})
		if r.URL.Path == "/v1/cluster" {
			answer = api.Cluster{Members: []api.Member{
				{Name: "north", Leader: true, Self: true, Address: "10.0.0.1:7331"}, {Name: "<b>south", Address: "10.0.0.2:7331"},
			}}
			if asked++; asked > 1 {
				status, kind, answer = 503, "application/problem+json", api.Problem{Status: 503, Code: "journal_unavailable", Detail: "the database cannot be reached"}
			}
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	m := &mesh{t: t, board: board.New(board.Options{User: "maria", Daemon: client.Over("/cluster/dibs.sock", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})})}
	v := m.visitor()
	_, body := v.ask("GET", "/health")
	testkit.Says(t, "the page", body, "<dt>Leader</dt><dd>north since", "<strong>north</strong> leader (this daemon)", "10.0.0.1:7331, seen", "&lt;b&gt;south", "10.0.0.2:7331")
	resp, body := v.ask("GET", "/health")
	testkit.Check(t, resp.StatusCode == 200 && strings.Contains(body, "the database cannot be reached"), "without the cluster, the page is %s: %s", resp.Status, body)
}

// TestNothingInline looks for code and styles in the pages that the policy would forbid.
func TestNothingInline(t *testing.T) {
	b, v := newVisitor(t, board.Options{})
	v.enter(b)
	for _, path := range []string{"/", "/activity", "/agents", "/nowhere", "/sweep", "/pause", "/tasks"} {
		_, body := v.ask("GET", path)
		for _, forbidden := range []string{" style=", "<style", "<script>", " onclick=", "javascript:", "http://", "https://"} {
			testkit.Check(t, !strings.Contains(body, forbidden), "%s has %q", path, forbidden)
		}
	}
}

// TestWords shows a board whose statuses and priorities have other names than dibs's.
func TestWords(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.kill()
	tasks := m.notion.Databases().Tasks
	for column, name := range map[string]string{"status": "Zurückgestellt", "priority": "Hoch"} {
		testkit.Must(t, m.notion.AddOption(tasks, column, name))
	}
	props := status("Zurückgestellt")
	props["priority"] = map[string]any{"select": map[string]any{"name": "Hoch"}}
	id := m.add("Paint the gate", props)
	m.env = []string{"DIBS_TASKS_STATUSES_BLOCKED=Zurückgestellt", "DIBS_TASKS_STATUSES_CANCELLED=Abgebrochen", "DIBS_TASKS_PRIORITIES_HIGH=Hoch"}
	m.serve()
	v := m.visitor()
	var page string
	m.until("the board shows its own words", func() bool {
		_, page = v.ask("GET", "/tasks")
		return strings.Contains(page, "</span>Zurückgestellt <span") && strings.Contains(page, `<span class="priority high">Hoch</span>`)
	})
	testkit.Check(t, strings.Contains(page, "</span>In progress <span"), "the columns that have dibs's names: %s", page)
	_, page = v.ask("GET", "/tasks/"+id)
	testkit.Check(t, strings.Contains(page, "</span>Zurückgestellt · TASK-1 · Hoch</p>"), "the task: %s", page)
	testkit.Check(t, strings.Contains(page, "/reopen\"") && !strings.Contains(page, "/cancel\""),
		"the task can get a status that the board does without: %s", page)
}

// sender is a browser without JavaScript, which was let in.
type sender struct {
	m    *mesh
	base string
	http http.Client
}

func newSender(m *mesh) *sender {
	m.t.Helper()
	jar := testkit.Got(cookiejar.New(nil))(m.t)
	v := &sender{m: m, http: http.Client{Jar: jar}}
	v.base, _, _ = strings.Cut(m.link, "/enter")
	v.ask(strings.TrimPrefix(m.link, v.base), nil)
	return v
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// ask sends a form, or reads a page if there is none. It returns the status, the hidden fields of
// the form in the answer, and its text.
func (v *sender) ask(path string, form url.Values) (int, url.Values, string) {
	v.m.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r := testkit.Got(http.NewRequestWithContext(v.m.t.Context(), method, v.base+path, strings.NewReader(body)))(v.m.t)
	r.Header.Set("Origin", v.base)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp := testkit.Got(v.http.Do(r))(v.m.t)
	defer resp.Body.Close()
	page := testkit.Got(io.ReadAll(resp.Body))(v.m.t)
	fields := make(url.Values)
	for _, field := range hidden.FindAllStringSubmatch(string(page), -1) {
		fields.Set(field[1], html.UnescapeString(field[2]))
	}
	return resp.StatusCode, fields, html.UnescapeString(string(page))
}

// gets sends a form, or reads a page, which is to be answered so, and returns the form in the answer.
func (v *sender) gets(path string, form url.Values, want int, parts ...string) url.Values {
	v.m.t.Helper()
	code, again, page := v.ask(path, form)
	testkit.Check(v.m.t, code == want, "%s was answered %d: %s", path, code, page)
	testkit.Says(v.m.t, path, page, parts...)
	return again
}

// does fills in the form of an action and sends it.
func (v *sender) does(id, verb string, more ...string) string {
	v.m.t.Helper()
	path := "/tasks/" + id + "/" + verb
	_, form, asked := v.ask(path, nil)
	testkit.Require(v.m.t, form.Get("seen") != "", "%s has no form: %s", path, asked)
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	code, _, page := v.ask(path, form)
	testkit.Require(v.m.t, code == http.StatusOK && strings.Contains(page, `class="done"`), "%s was answered %d: %s", path, code, page)
	return page
}

// is waits until the daemon shows a task in a status.
func (m *mesh) is(id string, want task.Status) {
	m.t.Helper()
	m.until(fmt.Sprintf("%s is %s", id, want), func() bool {
		t, err := client.Do(m.t.Context(), m.client, api.OpGetTask, api.GetTaskInput{ID: id})
		return err == nil && t.Status == want
	})
}

// TestGestures does without JavaScript what people may do to a task that no agent has.
func TestGestures(t *testing.T) {
	m := newMesh(t, "empty", 0)
	m.reviews()
	ids := []string{m.add("Sew a button on", nil), m.add("Mend the fence", status("REVIEW")), m.add("Oil the hinges", nil)}
	m.sync()
	v := newSender(m)
	v.does(ids[0], "block", "text", "no thread")
	m.is(ids[0], task.Blocked)
	page := v.does(ids[0], "answer", "text", "Take the red one.\nIt is in the drawer.")
	m.is(ids[0], task.Open)
	testkit.Check(t, strings.Contains(page, "The answer is a comment on the page"), "after an answer, the page says %s", page)
	v.does(ids[0], "comment", "text", "The left drawer.")
	_, _, said := v.ask("/tasks/"+ids[0]+"/page", nil)
	testkit.Says(t, "the comments", said, "Take the red one.\nIt is in the drawer. (maria on the board)", "The left drawer.", ">user ")
	v.does(ids[0], "cancel")
	m.is(ids[0], task.Cancelled)
	v.does(ids[0], "reopen")
	m.is(ids[0], task.Open)
	v.does(ids[1], "approve", "text", "good work")
	m.is(ids[1], task.Completed)
	v.does(ids[2], "offer", "agent", "Oracle", "text", "you know hinges")
	got := do(m, api.OpGetTask, api.GetTaskInput{ID: ids[2]})
	testkit.Check(t, got.Offer != nil && got.Offer.To == "Oracle", "the task is %+v; want it offered to Oracle", got)
	for _, id := range ids[:2] {
		p, _ := m.notion.Page(id)
		testkit.Check(t, strings.Contains(fmt.Sprint(p), "maria on the board"), "its note does not say who did it: %v", p)
	}
	// What a move to a column takes is asked, or why there is none.
	if _, form, page := v.ask("/tasks/"+ids[0]+"/move?to=BLOCKED", nil); form.Get("seen") == "" || !strings.Contains(page, "Set the task to Blocked?") {
		t.Errorf("a move to BLOCKED asks %s", page)
	}
	m.claim("Sandman", ids[0])
	for to, want := range map[string]string{
		"BLOCKED": "Sandman works on it: release it first", "REVIEW": "Sandman works on it", "IN_PROGRESS": "already", "nowhere": "There is no such thing to do",
	} {
		_, form, page := v.ask("/tasks/"+ids[0]+"/move?to="+to, nil)
		testkit.Check(t, form.Get("seen") == "" && strings.Contains(page, want), "a move to %s says %s, want %q", to, page, want)
	}
}

// TestNewTask makes a task that waits for another; the form that comes twice makes it once.
func TestNewTask(t *testing.T) {
	m := newMesh(t, "empty", 0)
	first := m.add("Sew a button on", nil)
	m.sync()
	v := newSender(m)
	_, form, _ := v.ask("/new?after=TASK-1", nil)
	v.gets("/new", url.Values{"key": form["key"], "title": {" "}}, 409, "a task needs a title")
	form.Set("title", "Iron the shirt")
	form.Set("text", "Not **too** hot.")
	form.Set("priority", "high")
	form.Set("needs", "TASK-1")
	for range 2 {
		v.gets("/new", form, 200, "The task was made.", "Iron the shirt")
	}
	all := do(m, api.OpListTasks, api.ListTasksInput{Text: "Iron"})
	testkit.Require(t, len(all.Tasks) == 1 && all.Tasks[0].Priority == "high" && len(all.Tasks[0].DependsOn) == 1, "the tasks are %+v; want one, after another", all.Tasks)
	drawn := regexp.MustCompile(`(?s)<path d="M[^"]+"/>.*<a href="/tasks/[^"]+" class="s-OPEN"[^>]*><title>Sew a button on.*<g class="self s-OPEN"><title>Iron the shirt.*Waits for</h3>.*Sew a button on`)
	made := string(all.Tasks[0].ID)
	shows := func(id string, is func(page string) bool) func() bool {
		return func() bool {
			_, _, page := v.ask("/tasks/"+id, nil)
			return is(page)
		}
	}
	m.until("what it waits for is drawn", shows(made, func(page string) bool {
		return drawn.MatchString(page) && !strings.Contains(page, "Waits for this")
	}))
	m.until("what waits for it is listed", shows(first, regexp.MustCompile(`(?s)Waits for this</h3>.*Iron the shirt`).MatchString))
	// A form that was changed after it was done is refused once: it has another key then.
	used := form.Get("key")
	form.Set("title", "Iron the trousers")
	again := v.gets("/new", form, 409, "the idempotency key was used")
	testkit.Check(t, again.Get("key") != "" && again.Get("key") != used, "the form keeps the key %s", used)
	form.Set("title", "Iron the shirt")
	form.Set("needs", "TASK-77")
	form.Del("key")
	v.gets("/new", form, 409, "TASK-77", `value="Iron the shirt"`)
}

// TestMeanwhile sends forms about tasks that somebody has changed since: what was changed is
// shown, nothing is done, and the form that comes back is about the task as it is.
func TestMeanwhile(t *testing.T) {
	m := newMesh(t, "empty", 0)
	id, other := m.add("Paint the gate", status("BLOCKED")), m.add("Mend the fence", nil)
	m.sync()
	v := newSender(m)
	reopen, cancel := "/tasks/"+id+"/reopen", "/tasks/"+id+"/cancel"
	shown := v.gets(reopen, nil, 200)
	// A person has completed it, whether the daemon knows that already or not.
	testkit.Must(t, m.notion.EditPage(id, status("COMPLETED")))
	code, _, page := v.ask(reopen, shown)
	testkit.Check(t, code == 409 && (strings.Contains(page, "is COMPLETED, and not BLOCKED any more") || strings.Contains(page, "Changed since you looked")), "answered %d: %s", code, page)
	m.sync()
	m.is(id, task.Completed)
	again := v.gets(reopen, shown, 409, `<th scope="row">Status</th><td>Blocked</td><td>Completed</td>`)
	v.gets(reopen, again, 200, "The task is open again.")
	v.gets(reopen, again, 200, "The task is open again.") // sent twice, it is done once

	// Nor is a person's name taken off that the daemon does not know of yet.
	shown = v.gets(cancel, nil, 200)
	testkit.Must(t, m.notion.EditPage(id, map[string]any{"claimed_by": richText("Ann")}))
	again = v.gets(cancel, shown, 409, "Ann")
	m.sync()
	if code, again, page = v.ask(cancel, again); code == http.StatusConflict && again.Get("seen") != "" {
		code, _, page = v.ask(cancel, again)
	}
	testkit.Check(t, code == 200 && strings.Contains(page, "The task was cancelled."), "what was shown is cancelled: answered %d %s", code, page)

	// An agent has claimed it, and there is nothing to confirm any more.
	shown = v.gets("/tasks/"+other+"/cancel", nil, 200)
	m.claim("Oracle", other)
	again = v.gets("/tasks/"+other+"/cancel", shown, 409, "<td>nobody</td><td>Oracle</td>", "release it first")
	testkit.Check(t, again.Get("seen") == "", "there is a form: %v", again)
	got := do(m, api.OpGetTask, api.GetTaskInput{ID: other})
	testkit.Check(t, got.Agent == "Oracle", "the task is %+v; want Oracle at work on it", got)
	v.gets("/tasks/"+other+"/release", url.Values{}, 409) // a form without what was seen does nothing
}

// TestPausedAndResumed pauses everybody with one click, and resumes everybody and an agent with one
// each; every page says what is paused.
func TestPausedAndResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	t.Parallel()
	m := newMesh(t, "empty", 3)
	v := m.visitor()
	press := func(path string) {
		t.Helper()
		resp, body := v.ask("POST", path, "Origin: "+v.server.URL)
		testkit.Require(t, resp.StatusCode == 303 && strings.HasPrefix(resp.Header.Get("Location"), "/?done="), "%s: %s %s", path, resp.Status, body)
	}
	press("/pause")
	testkit.Refused(client.Do(t.Context(), m.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Sandman"})))(t, "maria paused everybody: on the board")
	m.until("a page says that everybody is paused, and does not offer to pause", func() bool {
		_, body := v.ask("GET", "/activity")
		return strings.Contains(body, "Everybody is paused, by maria: on the board") && !strings.Contains(body, `href="/pause"`)
	})
	press("/resume")
	press("/pause?agent=Oracle&minutes=60&text=" + url.QueryEscape("<b>too eager</b>"))
	said := ""
	m.until("the board says that Oracle is paused", func() bool {
		_, said = v.ask("GET", "/")
		return strings.Contains(said, "Oracle is paused until")
	})
	testkit.Check(t, !strings.Contains(said, "<b>too") && strings.Contains(said, `href="/pause"`), "the page has\n%s", said)
	press("/resume?agent=Oracle")
	s := do(m, api.OpStatus, struct{}{})
	testkit.Check(t, len(s.Pauses) == 0, "what is paused: %+v", s.Pauses)
}
