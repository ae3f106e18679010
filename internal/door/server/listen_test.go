package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/server"
	"dibs/internal/task"
	"dibs/internal/testkit"
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
	for name, want := range map[string]fs.FileMode{
		path:               fs.ModeSocket | 0o600,
		filepath.Dir(path): fs.ModeDir | 0o700,
	} {
		info := testkit.Got(os.Stat(name))(t)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
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
	t.Run("file", func(t *testing.T) {
		path := socketPath(t)
		testkit.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
		testkit.Must(t, os.WriteFile(path, []byte("precious"), 0o600))
		testkit.Refused(server.Listen(path, ""))(t, path+" is there and is not a socket")
		if data, err := os.ReadFile(path); string(data) != "precious" {
			t.Errorf("the file holds %q, %v", data, err)
		}
	})
	t.Run("socket of another kind", func(t *testing.T) {
		path := socketPath(t)
		testkit.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
		packets := testkit.Got(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
		defer packets.Close()
		testkit.Refused(server.Listen(path, ""))(t, "cannot be told")
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the socket is gone: %v", err)
		}
	})
	t.Run("directory that cannot be made", func(t *testing.T) {
		path := socketPath(t)
		testkit.Must(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
		_, err := server.Listen(path, "")
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "the directory of the socket: "), "Listen = %v", err)
	})
	t.Run("path too long", func(t *testing.T) {
		path := filepath.Join(socketPath(t), strings.Repeat("s", 120))
		testkit.Refused(server.Listen(path, ""))(t, path)
	})
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
