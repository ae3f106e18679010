package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim/keepers"
	"dibs/internal/door/server"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// fewFiles lets this process have that many files open, as far as it asks, until the test ends.
func fewFiles(t *testing.T, n uint64) {
	var before unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: before.Max}))
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

// TestTooManyConnections opens as many connections as there may be, with many files and with few,
// and asks on one more.
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
		if got := f.must("POST", "/v1/sweep", "{}"); got.status != 200 {
			t.Errorf("with room again: answered %d %s, want 200", got.status, got.body)
		}
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

// TestProcessesOfAMember has another member say of a process that it lives, that it cannot see it, and
// that there is none.
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
