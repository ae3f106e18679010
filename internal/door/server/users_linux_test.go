package server_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// The users of these tests exist by their numbers only.
const (
	hostile = 64001
	member  = 64002
	group   = 64100
)

// open returns a path for a socket in a directory that all users may enter.
func open(t *testing.T) string {
	t.Helper()
	path := socketPath(t)
	testkit.Must(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o711))
	return path
}

func TestSocketGroup(t *testing.T) {
	gid := os.Getgid()
	if os.Getuid() == 0 {
		gid = group
	}
	path := open(t)
	f := start(t)
	f.serve(listenFor(t, path, strconv.Itoa(gid)))
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o660, filepath.Dir(path): fs.ModeDir | 0o710} {
		var stat unix.Stat_t
		info, err := os.Stat(name)
		testkit.Must(t, errors.Join(err, unix.Stat(name, &stat)))
		if info.Mode() != want || int(stat.Gid) != gid {
			t.Errorf("%s has mode %v and group %d, want %v and %d", name, info.Mode(), stat.Gid, want, gid)
		}
	}
	other := open(t)
	listen(t, other)
	refused := func(who, path string, group int) {
		testkit.AsUser(t, hostile, group, func() {
			_, err := net.Dial("unix", path)
			testkit.Check(t, errors.Is(err, fs.ErrPermission), "%s: %v, want permission denied", who, err)
		})
	}
	refused("a user who is not in the group", path, 64999)
	refused("another user", other, group)
	testkit.Must(t, os.Chmod(filepath.Dir(other), 0o777))
	refused("another user, where the directory lets it pass", other, group)
	// The kernel says who calls; what the caller says does not matter.
	f.broker.SetAgents([]broker.Agent{{Name: "Sandman", UIDs: []int{os.Getuid()}}})
	testkit.AsUser(t, member, group, func() {
		got, err := exchange(t.Context(), dialer(path), "POST", "/v1/claims", claimBody)
		testkit.Check(t, err == nil && problemIn(t, got).Code == api.CodeForbiddenAgent,
			"answered %d %s, %v; want forbidden_agent", got.status, got.body, err)
	})
}

// TestOneUserOwesForItself has one user ask for more than it may: another one goes on, and
// each is signed as the kernel says, and whether it is the daemon's own.
func TestOneUserOwesForItself(t *testing.T) {
	path := open(t)
	f := start(t)
	f.serve(listenFor(t, path, strconv.Itoa(group)))
	var by string
	f.broker.owing = func(_ string, who caller, _ any) error {
		by = fmt.Sprint(who.User, " ", who.Own)
		return nil
	}
	send := func() int {
		got, err := exchange(t.Context(), dialer(path), "POST", "/v1/messages", `{"to":"Oracle","text":"hello"}`)
		testkit.OK(t, err)
		return got.status
	}
	testkit.AsUser(t, member, group, func() {
		status := 0
		for range 300 {
			if status = send(); status != 201 {
				break
			}
		}
		testkit.Check(t, status == 429 && by == "user 64002 false",
			"the last of many messages of %q was answered %d, want 429", by, status)
	})
	status := send()
	testkit.Check(t, status == 201 && by == "user root true", "the message of %q was answered %d", by, status)
}

// TestOneUserCannotKeepOthersOut has another user open all the connections it gets.
func TestOneUserCannotKeepOthersOut(t *testing.T) {
	path := open(t)
	f := start(t)
	f.serve(listenFor(t, path, strconv.Itoa(group)))
	var busy api.Code
	testkit.AsUser(t, member, group, func() {
		for range 128 {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
		}
		got, err := exchange(t.Context(), dialer(path), "GET", "/v1/status", "")
		if err != nil {
			t.Error(err)
			return
		}
		busy = problemIn(t, got).Code

		done := make(chan struct{})
		go func() { // by the daemon's own user, on another thread
			defer close(done)
			got, err := exchange(t.Context(), dialer(path), "GET", "/v1/status", "")
			testkit.Check(t, err == nil && got.status == 200, "the daemon's user was answered %d %s, %v", got.status, got.body, err)
		}()
		<-done
	})
	testkit.Check(t, busy == api.CodeBusy, "the user with too many connections got %q, want busy", busy)
}

// TestManyUsersCannotKeepOthersOut has users whom nobody listed open all the connections that they get.
func TestManyUsersCannotKeepOthersOut(t *testing.T) {
	path := open(t)
	f := start(t, member)
	f.serve(listenFor(t, path, strconv.Itoa(group)))
	for uid := hostile + 100; uid < hostile+104; uid++ {
		testkit.AsUser(t, uid, group, func() {
			for range 128 {
				conn, err := net.Dial("unix", path)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { conn.Close() })
			}
		})
	}
	ask := func(what string) {
		t.Helper()
		got, err := exchange(t.Context(), dialer(path), "GET", "/v1/status", "")
		testkit.Check(t, err == nil && got.status == 200, "%s was answered %d %s, %v; want 200", what, got.status, got.body, err)
	}
	// And they keep what they got. That is half of their share: the daemon may notice
	// later than the next one comes that a connection was closed.
	for range 8 {
		testkit.AsUser(t, member, group, func() {
			ask("a user who is listed")
			conn, err := net.Dial("unix", path)
			testkit.OK(t, err)
			t.Cleanup(func() { conn.Close() })
		})
	}
	testkit.AsUser(t, hostile, group, func() {
		got, err := exchange(t.Context(), dialer(path), "GET", "/v1/status", "")
		testkit.Check(t, err != nil || got.status == 503, "one who is not was answered %d %s", got.status, got.body)
	})
	ask("the daemon's user")
}

func TestDirectoriesOfSocketsRefused(t *testing.T) {
	own, root := os.Getgid(), 0
	for name, tt := range map[string]struct {
		mode     fs.FileMode
		uid, gid int    // of the directory, if another user's or group's
		group    string // of the socket
		want     string
	}{
		"open to everybody":       {0o777, root, root, "", "every user of this machine could put another socket into "},
		"open to all, and sticky": {0o777 | fs.ModeSticky, root, root, "", ""},
		"closed to the group":     {0o700, root, root, strconv.Itoa(own), "cannot pass through "},
		"open to another group":   {0o710, root, root, strconv.Itoa(own + 1), "cannot pass through "},
		"another user's":          {0o755, hostile, hostile, "", "user 64001 could put another socket into "},
		"open to a group":         {0o770, root, group, "", "group 64100 could put another socket into "},
		"of a group of it":        {0o775, hostile, group, "", "user 64001 could put another socket into "},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			dir := filepath.Dir(path)
			testkit.Must(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, tt.mode)))
			if tt.uid != root || tt.gid != root {
				if os.Getuid() != 0 {
					t.Skip("only root can make directories of other users")
				}
				testkit.Must(t, errors.Join(os.Chown(dir, tt.uid, tt.gid), os.Chmod(dir, tt.mode)))
				testkit.Fails(t, tryListen(filepath.Join(dir, "below", "dibs.sock"), ""), " could put another socket into ")
			}
			if err := tryListen(path, tt.group); tt.want != "" {
				testkit.Fails(t, err, tt.want+dir)
			} else {
				testkit.OK(t, err)
			}
		})
	}
	testkit.Fails(t, tryListen(socketPath(t), "no-such-group"), "socket_group: ")
}
