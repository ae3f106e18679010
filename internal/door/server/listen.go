package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"dibs/internal/api/peer"
	"dibs/internal/kit/safefile"
)

// dialTimeout is how long a running daemon may take to accept.
const dialTimeout = time.Second

// Listen listens on a unix socket that only this user can reach, and the members of group, a name
// or number, unless it is empty. It creates the directory if needed. It replaces a socket left by
// an earlier daemon, and nothing else that is at the path.
func Listen(path, group string) (net.Listener, error) {
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	if err := makeDirectory(filepath.Dir(path), group, gid); err != nil {
		return nil, fmt.Errorf("the directory of the socket: %w", err)
	}
	if err := makeRoom(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return restrict(c)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if errors.Is(err, syscall.EPERM) {
		return nil, errNoSockets(err)
	}
	if err != nil {
		return nil, fmt.Errorf("the socket: %w: make its directory writable for this user, or set another socket", err)
	}
	if err := admit(path, gid); err != nil {
		l.Close()
		return nil, fmt.Errorf("the socket: %w: make its directory writable for this user, or set another socket", err)
	}
	return l, nil
}

// admit gives access to a socket to this user, and to the group if there is one. A bound socket has
// no descriptor of its own in the file system, so admit changes it through that of its directory,
// which nobody else can write.
func admit(path string, gid int) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name, mode := filepath.Base(path), fs.FileMode(0o600)
	if gid != nobody {
		// The group first: no other group may see the wider mode.
		if err := dir.Lchown(name, -1, gid); err != nil {
			return err
		}
		mode = 0o660
	}
	return dir.Chmod(name, mode)
}

// nobody stands for no group.
const nobody = -1

func groupID(group string) (int, error) {
	if group == "" {
		return nobody, nil
	}
	if gid, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(gid), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("socket_group: %w: name a group of this machine that this user is in", err)
	}
	return strconv.Atoi(found.Gid)
}

// makeDirectory creates the directory of a socket for this user, passable for the group. An
// existing directory must be passable for the group, and must not let others replace its contents.
func makeDirectory(dir, group string, gid int) error {
	_, err := os.Stat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if err := safefile.MakeShared(dir); err != nil {
		if unsafe, ok := errors.AsType[*safefile.Unsafe](err); ok {
			return fmt.Errorf("%s could put another socket into %s: set socket to a path in a directory of your own, or run: %s", unsafe.Who, dir, unsafe.Remedy)
		}
		return fmt.Errorf("%w: set another socket", err)
	}
	if gid == nobody {
		return nil
	}
	if missing {
		made, err := os.OpenFile(dir, os.O_RDONLY|safefile.NoFollow, 0)
		if err != nil {
			return err
		}
		return errors.Join(made.Chown(-1, gid), made.Chmod(0o710), made.Close())
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o001 == 0 && (info.Mode().Perm()&0o010 == 0 || safefile.Group(info) != gid) {
		return fmt.Errorf("the group %s cannot pass through %s: run: chgrp %[1]s %[2]s && chmod g+x %[2]s", group, dir)
	}
	return nil
}

// errNoSockets explains EPERM: permissions of files give EACCES.
func errNoSockets(err error) error {
	return fmt.Errorf("the socket: %w: a sandbox around this process, or the file system there, allows none: start dibs serve outside of it, or set another socket", err)
}

// makeRoom removes a socket on which no daemon listens any more.
func makeRoom(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the socket: %w: make its directory writable for this user, or set another socket", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: move it away, or set another socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		defer conn.Close()
		pid := ""
		if p := peer.Of(conn); p.PID > 0 {
			pid = fmt.Sprintf(" (pid %d)", p.PID)
		}
		return fmt.Errorf("a daemon is already serving on %s%s: stop it, or set another socket", path, pid)
	}
	if errors.Is(err, syscall.EPERM) {
		return errNoSockets(err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("a socket is there, and whether a daemon serves on it cannot be told: %w: remove it if none does, or set another socket", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a socket left behind: %w: remove it, or set another socket", err)
	}
	return nil
}

// Pipe is a listener for connections within this process, without a socket. It is safe for
// concurrent use, and works inside a synctest bubble.
type Pipe struct {
	conns     chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

// NewPipe returns a listener that Dial reaches.
func NewPipe() *Pipe {
	return &Pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the next Accept.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next connection.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (p *Pipe) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

// Addr returns a placeholder.
func (p *Pipe) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
