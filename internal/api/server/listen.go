package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dialTimeout is how long a daemon that is there may take to accept.
const dialTimeout = time.Second

// Listen listens on a unix socket that only this user can reach. Its directory
// is made if it is missing. A socket that an earlier daemon left behind is
// replaced; anything else that stands at the path is left alone.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("the directory of the socket: %w", err)
	}
	if err := makeRoom(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return restrict(c)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("the socket: %w", err)
	}
	return l, nil
}

// makeRoom removes a socket that nobody listens on any more.
func makeRoom(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: move it away, or set another socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		defer conn.Close()
		pid := ""
		if p := peerOf(conn); p.pid > 0 {
			pid = fmt.Sprintf(" (pid %d)", p.pid)
		}
		return fmt.Errorf("a daemon is already serving on %s%s", path, pid)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("a socket is there, and whether a daemon serves on it cannot be told: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a socket left behind: %w", err)
	}
	return nil
}
