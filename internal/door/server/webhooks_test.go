package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/door/server"
	"dibs/internal/testkit"
)

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
			rest       string
			want       string
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
			if status != tt.want || took > tt.most || got != tt.heard {
				t.Errorf("%s: answered %q after %v, heard %q; want %q within %v, heard %q", tt.what, status, took, got, tt.want, tt.most, tt.heard)
			}
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
		if got := h.Refused(); got.Request != "a request to /notion" || !strings.Contains(got.Reason, "redirect") {
			t.Errorf("no post: %+v", got)
		}
		time.Sleep(time.Minute)
		ask("POST", "/")
		if n := strings.Count(log.String(), "a request to the webhook's address was refused"); n != 2 || strings.Contains(log.String(), "secret") {
			t.Errorf("logged %d times, want 2: %s", n, log.String())
		}
	})
}
