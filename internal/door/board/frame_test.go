package board_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/door/board"
	"dibs/internal/testkit"
)

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

// ask sends a request with headers, each as NAME: VALUE, and returns the answer and its
// body.
func (v *visitor) ask(method, path string, header ...string) (*http.Response, string) {
	v.t.Helper()
	r := testkit.Got(http.NewRequestWithContext(v.t.Context(), method, v.server.URL+path, nil))(v.t)
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
		if resp.StatusCode != 401 && resp.StatusCode != 403 || len(resp.Cookies()) > 0 || !strings.Contains(body, "link") {
			t.Errorf("without a link, %s is answered with %s: %s", path, resp.Status, body)
		}
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
		testkit.Check(t, resp.Header.Get("X-Content-Type-Options") == "nosniff",
			"%s %s: the header lacks nosniff", tt.method, tt.path)
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
		"/": 200, "/tasks": 200, "/events": 200, "/list?status=OPEN": 200, "/list?status=LOST": 404, "/list?status=OPEN&from=-1": 404,
		"/agents": 502, "/charts": 502, "/charts?days=5": 404, "/health": 502,
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
		for _, path := range []string{"/health", "/agents", "/charts", "/tasks/2f835e81-2bbb-81b6-9700-e18108a40b1f"} {
			began := time.Now()
			resp := ask(path, cookie)
			body, _ := io.ReadAll(resp.Body)
			if took := time.Since(began); resp.StatusCode != 502 || took > 10*time.Second || !strings.Contains(string(body), "the daemon takes too long to answer") {
				t.Errorf("%s is answered with %s after %v: %s", path, resp.Status, took, body)
			}
		}
	})
}

// TestClusterIsShown looks at the health of a daemon that is a member of a cluster, also
// while the cluster cannot be asked.
func TestClusterIsShown(t *testing.T) {
	asked := 0
	daemon := http.NewServeMux()
	daemon.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(api.Status{Cluster: &api.ClusterStatus{Name: "north", Leader: "north"}})
	})
	daemon.HandleFunc("GET /v1/cluster", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > 1 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			json.NewEncoder(w).Encode(api.Problem{Status: 503, Code: "journal_unavailable", Detail: "the database cannot be reached"})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(api.Cluster{Members: []api.Member{
			{Name: "north", Leader: true, Self: true, Address: "10.0.0.1:7331"}, {Name: "<b>south", Address: "10.0.0.2:7331"},
		}})
	})
	server := httptest.NewServer(daemon)
	t.Cleanup(server.Close)
	b := board.New(board.Options{User: "maria", Daemon: client.Over("/cluster/dibs.sock", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})})
	pages := httptest.NewServer(b.Handler())
	t.Cleanup(pages.Close)
	v := &visitor{t: t, server: pages}
	v.enter(b)
	_, body := v.ask("GET", "/health")
	testkit.Says(t, "the page", body, "<dt>Leader</dt><dd>north since", "<strong>north</strong> leader (this daemon)", "10.0.0.1:7331, seen", "&lt;b&gt;south", "10.0.0.2:7331")
	if resp, body := v.ask("GET", "/health"); resp.StatusCode != 200 || !strings.Contains(body, "the database cannot be reached") {
		t.Errorf("while the cluster cannot be asked, the page is %s: %s", resp.Status, body)
	}
}

// TestNothingInline looks for code and styles in the pages that the policy would forbid.
func TestNothingInline(t *testing.T) {
	b, v := newVisitor(t, board.Options{})
	v.enter(b)
	for _, path := range []string{"/", "/events", "/agents", "/nowhere", "/sweep"} {
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
