package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim/keepers"
	"dibs/internal/door/server"
	"dibs/internal/task"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// socketPath returns a path for a socket, short enough to be one.
func socketPath(t *testing.T) string {
	t.Helper()
	dir := testkit.Got(os.MkdirTemp("", "dibs"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "dibs.sock")
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	return listenFor(t, path, "")
}

// listenFor listens for the members of a group, too.
func listenFor(t *testing.T, path, group string) net.Listener {
	t.Helper()
	l := testkit.Got(server.Listen(path, group))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// tryListen returns why one cannot listen there.
func tryListen(path, group string) error {
	l, err := server.Listen(path, group)
	if err == nil {
		l.Close()
	}
	return err
}

func TestListenModes(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path)
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
		mode := testkit.Got(os.Stat(name))(t).Mode()
		testkit.Check(t, mode == want, "%s has mode %v, want %v", name, mode, want)
	}
	testkit.Must(t, l.Close())
	_, err := os.Stat(path)
	testkit.Check(t, os.IsNotExist(err), "the socket is still there after Close: %v", err)
}

// TestListenOnLive finds a daemon on the socket, and leaves it alone.
func TestListenOnLive(t *testing.T) {
	path := socketPath(t)
	first := listen(t, path)
	_, err := server.Listen(path, "")
	want := "a daemon is already serving on " + path
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		want += fmt.Sprintf(" (pid %d)", os.Getpid())
	}
	want += ": stop it, or set another socket"
	testkit.Check(t, err != nil && err.Error() == want, "Listen = %v, want %q", err, want)
	go func() {
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
		}
	}()
	for range 2 { // the connection of the second Listen, and one more
		conn, err := first.Accept()
		testkit.Require(t, err == nil, "the first daemon does not serve any more: %v", err)
		conn.Close()
	}
}

// TestListenOnStale replaces a socket that a daemon left behind.
func TestListenOnStale(t *testing.T) {
	path := socketPath(t)
	left := listen(t, path).(*net.UnixListener)
	left.SetUnlinkOnClose(false)
	left.Close()
	testkit.Got(os.Stat(path))(t)
	listen(t, path)
}

// TestListenOnOther refuses to take the place of what is not a stale socket.
func TestListenOnOther(t *testing.T) {
	path := socketPath(t)
	testkit.Must(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
	testkit.Refused(server.Listen(path, ""))(t, "the directory of the socket: ")
	testkit.Refused(server.Listen(filepath.Join(socketPath(t), strings.Repeat("s", 120)), ""))(t, strings.Repeat("s", 120))

	path = socketPath(t)
	testkit.Must(t, errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("precious"), 0o600)))
	testkit.Refused(server.Listen(path, ""))(t, path+" is there and is not a socket")
	testkit.Check(t, string(testkit.Got(os.ReadFile(path))(t)) == "precious", "the file is another one")
	testkit.Must(t, os.Remove(path))
	packets := testkit.Got(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	defer packets.Close()
	testkit.Refused(server.Listen(path, ""))(t, "cannot be told")
	testkit.Got(os.Stat(path))(t)
}

// TestCaller serves on a real socket, where the kernel says who calls.
func TestCaller(t *testing.T) {
	path := socketPath(t)
	f := start(t)
	f.serve(listen(t, path))
	uid := os.Getuid()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		uid = -1
	}
	f.broker.SetAgents([]broker.Agent{{Name: "Sandman", UIDs: []int{uid}}})
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	got, err := exchange(t.Context(), dial, "POST", "/v1/claims", claimBody)
	testkit.Check(t, err == nil && got.status == 201, "answered %d %s, %v; want 201", got.status, got.body, err)
	if uid == -1 {
		return
	}
	// Each user has keys of their own. No user is known of a pipe.
	ask := map[string]func() (answer, error){
		"a pipe":   func() (answer, error) { return f.ask(t.Context(), "POST", "/v1/sweep", "", withKey...) },
		"a socket": func() (answer, error) { return exchange(t.Context(), dial, "POST", "/v1/sweep", "", withKey...) },
	}
	for who, ask := range ask {
		f.broker.sweep = func(_ context.Context, asks broker.Caller) (api.Sweep, error) {
			want := task.UserSignature("unknown")
			if me, err := user.Current(); err == nil && who == "a socket" {
				want = task.UserSignature(me.Username)
			}
			testkit.Check(t, asks.User == want, "%s sweeps as %s, want %s", who, asks.User, want)
			return api.Sweep{Swept: []api.Swept{{Title: who}}}, nil
		}
		for _, replayed := range []string{"", "true"} {
			got, err := ask()
			if err != nil || got.status != 200 || !strings.Contains(got.body, who) || got.header.Get(api.ReplayedHeader) != replayed {
				t.Errorf("%s was answered %d %s, %v; replayed: %q", who, got.status, got.body, err, got.header.Get(api.ReplayedHeader))
			}
		}
	}
}

// fewFiles lets this process have that many files open, as far as it asks, until the test ends.
func fewFiles(t *testing.T, n uint64) {
	var before unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: before.Max}))
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

// TestTooManyConnections opens as many connections as there may be, with many files and with few, and asks on one more.
func TestTooManyConnections(t *testing.T) {
	t.Run("many files", func(t *testing.T) { tooManyConnections(t, 512) })
	t.Run("few files", func(t *testing.T) {
		fewFiles(t, 512)
		tooManyConnections(t, 96)
	})
}

func tooManyConnections(t *testing.T, most int) {
	served(t, "many", func(t *testing.T, f *fixture) {
		var open []net.Conn
		for range most {
			conn := testkit.Got(f.pipe.Dial(t.Context()))(t)
			open = append(open, conn)
		}
		defer func() {
			for _, conn := range open {
				conn.Close()
			}
		}()
		synctest.Wait()

		got := f.must("POST", "/v1/sweep", "{}")
		if p := problemIn(t, got); got.status != 503 || p.Code != api.CodeBusy || got.header.Get("Retry-After") != "1" {
			t.Errorf("answered %d %s, want busy and a Retry-After", got.status, got.body)
		}
		f.must("POST", "/v1/sweep", "{}")
		if n := strings.Count(f.logged(), "too many connections"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, f.logged())
		}
		// Who was let in is served, and makes room.
		go io.WriteString(open[0], "POST /v1/sweep HTTP/1.1\r\nHost: dibs\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
		testkit.Check(t, err == nil && resp.StatusCode == 200, "one that was let in was answered %v, %v", resp, err)
		open[0].Close()
		synctest.Wait()
		got = f.must("POST", "/v1/sweep", "{}")
		testkit.Check(t, got.status == 200, "with room again: answered %d %s, want 200", got.status, got.body)
	})
}

// insecure is a member that lets everybody in.
type insecure struct{ server.Member }

func (insecure) Secure(l net.Listener) net.Listener       { return l }
func (insecure) Who(*tls.ConnectionState) (string, error) { return "another", nil }
func (insecure) Leading() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "led") })
}

// TestStrangersAmongMembers opens more connections than there may be to the port for members, none
// of which says anything. A member that is among them, and one that comes then, are answered.
func TestStrangersAmongMembers(t *testing.T) {
	fewFiles(t, 512)
	testkit.Bubble(t, "silent", func(t *testing.T) {
		pipe := server.NewPipe()
		peers := server.NewPeers(insecure{}, slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- peers.Serve(pipe) }()
		defer func() { peers.Shutdown(t.Context()); <-served }()
		var left atomic.Int64
		dial := func() net.Conn {
			conn := testkit.Got(pipe.Dial(t.Context()))(t)
			t.Cleanup(func() { conn.Close() })
			synctest.Wait()
			return conn
		}
		ask := func(conn net.Conn) {
			t.Helper()
			go io.WriteString(conn, "GET / HTTP/1.1\r\nHost: dibs\r\nDibs-Guest: {}\r\n\r\n")
			resp := testkit.Got(http.ReadResponse(bufio.NewReader(conn), nil))(t)
			body, _ := io.ReadAll(resp.Body)
			testkit.Check(t, string(body) == "led", "a member is answered %q", body)
		}
		member := dial()
		ask(member)
		for range 300 {
			go func(conn net.Conn) {
				conn.Read(make([]byte, 1))
				left.Add(1)
			}(dial())
		}
		ask(member)
		ask(dial())
		if left := left.Load(); left < 200 {
			t.Errorf("%d of 300 strangers gave way", left)
		}
	})
}

// TestProcessesOfAMember has another member say of a process that it lives, that it cannot see it, and that there is none.
func TestProcessesOfAMember(t *testing.T) {
	for name, tt := range map[string]struct {
		says string
		want keepers.Life
	}{
		"lives":          {`{"pid":7,"began":"then","uid":1}`, keepers.Living},
		"another by now": {`{"pid":7,"began":"later","uid":1}`, keepers.Gone},
		"not seen":       {`{"pid":7,"uid":-1,"unknown":"it is there"}`, keepers.Unheard},
		"gone":           {``, keepers.Gone},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			pipe := server.NewPipe()
			member := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, `{"processes":[`+tt.says+`]}`)
			})}
			go member.Serve(pipe)
			defer member.Close()
			machines := server.NewMachines("here", func(ctx context.Context, _ string) (net.Conn, error) { return pipe.Dial(ctx) })
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go machines.Run(ctx)
			process := keepers.Process{ID: 7, Began: "then", UID: 1, Member: "there"}
			machines.Life(process) // from now on it is asked about
			time.Sleep(2 * time.Second)
			synctest.Wait()
			found, err := machines.Find(ctx, "there", 7)
			if got := machines.Life(process); got != tt.want || tt.want == keepers.Living && (err != nil || found != process) ||
				errors.Is(err, keepers.ErrNoProcess) != (name == "gone") {
				t.Errorf("the process is %v, found %+v, %v; want %v", got, found, err, tt.want)
			}
		})
	}
}

// Whatever is no post of good form is turned away, and whoever is slow is cut off.
func TestWebhooksFromTheOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := server.NewPipe()
		var got string
		h := server.NewWebhooks("/notion", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = fmt.Sprintf("%s %d %q %d", r.URL.Path, len(body), r.Header.Get("X-Notion-Signature"), len(r.Header))
		}), slog.New(slog.DiscardHandler), "X-Notion-Signature")
		served := make(chan error, 1)
		go func() { served <- h.Serve(pipe) }()
		for _, tt := range []struct {
			what, send string
			pause      time.Duration // before the rest
			rest, want string
			most       time.Duration
			heard      string
		}{
			{what: "a post", send: "POST /notion HTTP/1.1\r\nHost: x\r\nX-Notion-Signature: s\r\nDibs-Guest: {}\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}", want: "200", heard: `/webhook 2 "s" 2`},
			{what: "another path", send: "POST /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", want: "404"},
			{what: "a path below", send: "POST /notion/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", want: "404"},
			{what: "another method", send: "GET /notion HTTP/1.1\r\nHost: x\r\n\r\n", want: "405"},
			{what: "a mebibyte", send: "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20), want: "200", heard: `/webhook 1048576 "" 2`},
			{what: "more, announced", send: "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", want: "413"},
			{what: "more, not announced", send: "POST /notion HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n" + strings.Repeat("x", 0x100001) + "\r\n0\r\n\r\n", want: "413"},
			{what: "half a body to another path", send: "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n{", want: "404"},
			{what: "half a body of another method", send: "PUT /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n{", want: "405"},
			{what: "a path that is another form of it", send: "POST //notion HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", want: "404"},
			{what: "a question about the server", send: "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", want: "404"},
			{what: "half a header", send: "POST /notion HTTP/1.1\r\nHost: x\r\n", want: "", most: 5 * time.Second},
			{what: "half a body", send: "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", want: "408", most: 10 * time.Second},
			{what: "a slow body", send: "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{", pause: 9 * time.Second, rest: "}", want: "200", heard: `/webhook 2 "" 2`, most: 10 * time.Second},
		} {
			got = ""
			conn := testkit.Got(pipe.Dial(t.Context()))(t)
			began := time.Now()
			go func() {
				io.WriteString(conn, tt.send) // what is cut off cannot be sent whole
				if tt.rest != "" {
					time.Sleep(tt.pause)
					io.WriteString(conn, tt.rest)
				}
			}()
			status := ""
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				status = fmt.Sprint(resp.StatusCode)
				io.Copy(io.Discard, resp.Body)
			}
			took := time.Since(began)
			conn.Close()
			testkit.Check(t, status == tt.want && took <= tt.most && got == tt.heard,
				"%s: answered %q after %v, heard %q; want %q within %v, heard %q", tt.what, status, took, got, tt.want, tt.most, tt.heard)
			synctest.Wait()
		}
		h.Shutdown(t.Context())
		testkit.OK(t, <-served)
	})
}

// TestSlowStrangersGiveWay opens more connections than there may be, none of which sends a whole
// post, in one of four ways. A post that comes then is taken at once, and so is one that had begun
// among them, and one that is being answered: who has owed a post longest gives way.
func TestSlowStrangersGiveWay(t *testing.T) {
	const head, whole = "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", "POST /notion HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
	for what, send := range map[string]string{"say nothing": "", "half a header": head[:20], "half a body": head + "{", "no second post": whole} {
		testkit.Bubble(t, what, func(t *testing.T) {
			pipe, answer := server.NewPipe(), make(chan bool, 1)
			h := server.NewWebhooks("/notion", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); string(body) == "[]" {
					<-answer
				}
			}), slog.New(slog.DiscardHandler))
			go h.Serve(pipe)
			defer h.Shutdown(t.Context())
			dial := func(say string) net.Conn {
				conn := testkit.Got(pipe.Dial(t.Context()))(t)
				t.Cleanup(func() { conn.Close() })
				go io.WriteString(conn, say)
				return conn
			}
			strangers := func(n int) {
				for range n {
					conn := dial(send)
					if send == whole {
						http.ReadResponse(bufio.NewReader(conn), nil)
					}
					synctest.Wait()
				}
			}
			now := time.Now()
			answered := func(which string, conn net.Conn) {
				t.Helper()
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != http.StatusOK || time.Since(now) > 0 {
					t.Errorf("%s: answered %v, %v after %v", which, resp, err, time.Since(now))
				}
			}
			working := dial(strings.Replace(whole, "{}", "[]", 1))
			synctest.Wait()
			strangers(600)
			begun := dial(head + "{")
			strangers(400) // not as many as there may be
			answered("a new post", dial(whole))
			go io.WriteString(begun, "}")
			answered("one that had begun", begun)
			answer <- true
			answered("one that is being answered", working)
		})
	}
}

// TestRefusedPosts posts to paths that a proxy bent, and as strangers do. The last post that was
// refused is known, with a path that a terminal can show, and at most one a minute is logged.
func TestRefusedPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := server.NewWebhooks("/notion", http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
		ask := func(method, path string) {
			h.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: "secret=1"}, Header: http.Header{}})
		}
		ask("GET", "/wp-login.php")
		got := h.Refused()
		testkit.Check(t, got == nil, "what a stranger looks for is %+v", got)
		for path, want := range map[string]string{
			"/": "POST /", "/notion/": "POST /notion/", "//notion": "POST //notion", "/hooks/notion": "POST /hooks/notion",
			"/\x1b[31m\nü": "POST /%1B%5B31m%0A%C3%BC", "/" + strings.Repeat("x", 200): "POST /" + strings.Repeat("x", 99) + "…",
		} {
			ask("POST", path)
			if got := h.Refused(); got == nil || got.Request != want || !strings.HasPrefix(got.Reason, "only /notion is answered: ") || !got.At.Equal(time.Now()) {
				t.Errorf("%q: %+v, want %q", path, got, want)
			}
		}
		ask("GET", "/notion")
		got = h.Refused()
		testkit.Check(t, got.Request == "a request to /notion" && strings.Contains(got.Reason, "redirect"), "no post: %+v", got)
		time.Sleep(time.Minute)
		ask("POST", "/")
		n := strings.Count(log.String(), "a request to the webhook's address was refused")
		testkit.Check(t, n == 2 && !strings.Contains(log.String(), "secret"), "logged %d times, want 2: %s", n, log.String())
	})
}

// FuzzRequest asks for anything in any way. The answer is what was asked for, or
// a problem document that says what is wrong with the request.
func FuzzRequest(f *testing.F) {
	claims := "/v1/claims/" + string(claimID)
	for _, seed := range []struct{ method, path, media, key, body string }{
		{"POST", "/v1/claims", "application/json", "", `{"agent":"Sandman"}`},
		{"POST", "/v1/claims", "application/json; charset=utf-8", "k1", `{"agent":"Sandman","task":"11111111222233334444555555555555","timeout_minutes":30,"wait_seconds":0.5}`},
		{"POST", "/v1/claims", "application/json", "", `{"agent":"\u0000\ud800","task":"","extra":[{}]}`},
		{"POST", "/v1/claims", "application/x-www-form-urlencoded", "", `agent=Sandman`},
		{"POST", "/v1/claims", "", "", `{}`},
		{"GET", "/v1/claims?agent=Sandman", "", "", ""},
		{"GET", claims + "?wait=-1ns&after=9223372036854775808", "", "", ""},
		{"POST", "/v1/claims/mine/renew", "application/json", "k2", `{"agent":"Sandman"}`},
		{"POST", claims + "/release", "application/json", "", `{"reason":null}`},
		{"POST", claims + "/fail", "application/json", "", `{"reopen":"yes"}`},
		{"GET", "/v1/tasks?status=open&limit=-1&nonsense=%zz", "", "", ""},
		{"GET", "/v1/tasks/" + string(taskID), "", "", ""},
		{"GET", "/v1/events?after=0&follow=false", "", "", ""},
		{"POST", "/v1/sync", "application/json", "", `{"full":true}`},
		{"GET", "/v1/status", "", "", ""},
		{"PATCH", "//v1/../v1/claims", "", "", ""},
		{"HEAD", "/v1/nowhere", "", "", ""},
	} {
		f.Add(seed.method, seed.path, seed.media, seed.key, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, media, key, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://dibs"+path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") || method == http.MethodConnect {
			return // not a request that could be sent
		}
		if media != "" {
			req.Header.Set("Content-Type", media)
		}
		if key != "" {
			req.Header.Set(api.KeyHeader, key)
		}
		s := server.New(server.Options{Broker: easygoing(t), Journal: newMemory(t), Version: "v1", Log: slog.New(slog.DiscardHandler)})
		pipe := server.NewPipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(pipe) }()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.Dial(ctx) }}
		defer func() {
			transport.CloseIdleConnections()
			err := s.Shutdown(context.Background())
			testkit.Check(t, err == nil, "Shutdown: %v", err)
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}()
		for range 2 { // the second time, a key is known
			if body != "" {
				req.Body, _ = req.GetBody()
			}
			resp, err := transport.RoundTrip(req)
			switch {
			case err != nil && strings.Contains(err.Error(), "invalid header field"):
				return // not one that could be sent, either
			case err != nil:
				t.Fatalf("%s %s: no answer: %v", method, path, err)
			case strings.HasPrefix(resp.Header.Get("Content-Type"), api.EventStream):
				resp.Body.Close() // it need not have an end
			default:
				checkAnswer(t, req, resp)
			}
		}
	})
}

// checkAnswer checks the form of an answer, and that nothing is called the daemon's fault.
func checkAnswer(t *testing.T, req *http.Request, resp *http.Response) {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	testkit.Require(t, err == nil, "%s %s: %v", req.Method, req.URL, err)
	media := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode >= 500:
		t.Errorf("%s %s: %d %s", req.Method, req.URL, resp.StatusCode, data)
	case req.Method == http.MethodHead:
	case resp.StatusCode >= 400:
		var p api.Problem
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil || media != api.ProblemType {
			t.Errorf("%s %s: %d %q is no problem document (%v): %s", req.Method, req.URL, resp.StatusCode, media, err, data)
		}
		if p.Status != resp.StatusCode || p.Code == "" || p.Title == "" || p.Detail == "" || strings.Contains(p.Detail, "\n") {
			t.Errorf("%s %s: %d says %s", req.Method, req.URL, resp.StatusCode, data)
		}
	case resp.StatusCode < 300:
		testkit.Check(t, strings.HasSuffix(media, "json") && json.Valid(data),
			"%s %s: %d %q: %s", req.Method, req.URL, resp.StatusCode, media, data)
	}
}

// easygoing is a broker that grants whatever it is asked for, at once, and reports what it should not have been asked.
func easygoing(t *testing.T) *fake {
	f := newFake(t)
	f.claim = func(_ context.Context, _ broker.Caller, r api.ClaimRequest) (api.Claim, error) {
		testkit.Check(t, r.Agent != "" && r.WaitSeconds >= 0 && r.WaitSeconds <= api.MaxWait.Seconds() && r.TimeoutMinutes >= 0,
			"asked for a claim that cannot be: %+v", r)
		return held(), nil
	}
	f.lookup = func(id, agent string) (api.Claim, error) {
		testkit.Check(t, id != "" && (id != api.OnlyClaim || agent != ""), "asked for no claim in particular")
		return held(), nil
	}
	f.watch = func(in api.GetClaimInput) (api.Claim, error) {
		if wait, err := time.ParseDuration(in.Wait); err != nil || wait < 0 || wait > api.MaxWait {
			return api.Claim{}, api.Invalid("query.wait", errors.New("no time to wait"))
		}
		return f.lookup(in.ID, in.Agent)
	}
	f.events = func(ctx context.Context, _ api.EventsInput, wait time.Duration) ([]api.Event, int64, error) {
		if wait > 0 { // there is none, however long it waits
			<-ctx.Done()
		}
		return nil, 0, ctx.Err()
	}
	f.tasks = func(filter api.ListTasksInput) (api.Tasks, error) {
		testkit.Check(t, filter.Limit >= 0, "asked for tasks that cannot be: %+v", filter)
		return api.Tasks{}, nil
	}
	return f
}

// A lookup may tell an agent that it lost a claim. So a request that is refused for what it says itself
// is refused first: its answer is not about the loss.
func TestWrongRequestsLookNothingUp(t *testing.T) {
	for name, request := range map[string][3]string{
		"a grace for nothing":        {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","grace_seconds":5}`},
		"an orphan for nobody":       {"POST", "/v1/claims/mine/renew", `{"agent":"Sandman","orphaned":true}`},
		"a name that cannot be":      {"POST", "/v1/claims/mine/release", `{"agent":"Sandman","by":"a\u200bb","usage":{"tokens":5}}`},
		"a time that cannot be kept": {"GET", "/v1/claims/mine/alive?agent=Sandman&grace=x", ""},
	} {
		served(t, name, func(t *testing.T, f *fixture) {
			f.broker.lookup = func(string, string) (api.Claim, error) {
				t.Error("the claim was looked up")
				return held(), nil
			}
			if got := f.must(request[0], request[1], request[2]); got.status != http.StatusUnprocessableEntity && got.status != http.StatusForbidden {
				t.Errorf("answered %d %s", got.status, got.body)
			}
		})
	}
}
