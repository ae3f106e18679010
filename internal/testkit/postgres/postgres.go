// Package postgres runs PostgreSQL servers for tests. They are real servers, from the installed
// programs, each with a folder and a port of its own. A server ends with the process that started
// it, however that ends.
package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the database driver "pgx"
)

// ErrMissing says that no PostgreSQL server is installed.
var ErrMissing = errors.New("no PostgreSQL server is installed: initdb and postgres are neither in PATH nor in /usr/lib/postgresql/*/bin")

// Server is a PostgreSQL server that ends with this process. It is not safe for concurrent use.
type Server struct {
	dir  string // the folder of the data and the socket
	port int
	bin  string
	owns *syscall.Credential // the user that runs it; nil for this process's
	cmd  *exec.Cmd
	said bytes.Buffer
	// settings are options of the server, NAME=VALUE.
	settings []string
}

// New creates the data of a server; it does not start it. The settings are options of the server,
// NAME=VALUE. They override the defaults here, such as that nothing is synced to the disk. The error
// is ErrMissing if no server is installed.
func New(settings ...string) (*Server, error) { return NewFrom("", "", settings...) }

// NewFrom is New with data copied from a folder in kept, which is much quicker than making it. The
// first call puts it there. Processes may share kept. The copy is in a new folder in place; an empty
// place is /tmp.
func NewFrom(kept, place string, settings ...string) (_ *Server, err error) {
	s := &Server{settings: append([]string{"fsync=off", "full_page_writes=off", "log_min_messages=fatal", "max_connections=100"}, settings...)}
	if s.bin, err = programs(); err != nil {
		return nil, err
	}
	if place == "" {
		place = "/tmp" // not TMPDIR: its path may be too long for a socket, or closed to the server's user
	}
	if os.Getuid() == 0 { // the server refuses to run as root
		if s.owns, err = another(); err != nil {
			return nil, err
		}
	}
	return s, s.settle(place, func() error { return s.fill(kept) })
}

// settle gives the server a port, and a new folder in place, which fill fills.
func (s *Server) settle(place string, fill func() error) (err error) {
	if s.port, err = FreePort(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(place, "pg"); err != nil {
		return err
	}
	if s.owns != nil {
		err = os.Chown(s.dir, int(s.owns.Uid), int(s.owns.Gid))
	}
	if err == nil {
		err = fill()
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	return nil
}

// Standby makes a standby of a server that runs: a copy of its data that, once it is started, follows
// the server at an address, such as that of a way to it. Promote it with pg_promote().
func (s *Server) Standby(address string) (*Server, error) {
	b := &Server{bin: s.bin, owns: s.owns, settings: append(slices.Clone(s.settings), "wal_retrieve_retry_interval=100ms")}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return b, b.settle(filepath.Dir(s.dir), func() error {
		copying := b.Command(filepath.Join(b.bin, "pg_basebackup"), "--pgdata="+b.data(), "--dbname=user=postgres host="+host+" port="+port,
			"--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--wal-method=stream")
		if out, err := copying.CombinedOutput(); err != nil {
			return fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
		return nil
	})
}

// Write writes a file beside the server's data, which only the server can read, and returns its path.
func (s *Server) Write(name string, content []byte) (path string, err error) {
	path = filepath.Join(s.dir, name)
	err = os.WriteFile(path, content, 0o600)
	if err == nil && s.owns != nil {
		err = os.Chown(path, int(s.owns.Uid), int(s.owns.Gid))
	}
	return path, err
}

// Set sets options of the server, NAME=VALUE, from its next start on.
func (s *Server) Set(settings ...string) { s.settings = append(s.settings, settings...) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts the server, and returns once it answers.
func (s *Server) Start() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	s.said.Reset()
	s.cmd = s.Command(filepath.Join(s.bin, "postgres"), args...)
	s.cmd.Stderr = &s.said
	if err := Begin(s.cmd); err != nil {
		return err
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := s.ping()
		if err == nil {
			return nil
		}
		if time.Since(begun) > time.Minute {
			return errors.Join(fmt.Errorf("the server does not answer: %w", err), s.Kill())
		}
	}
}

// Command returns a command that runs as the server's user, and ends with this process; see Begin.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes(s.owns)
	return cmd
}

func (s *Server) ping() error {
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return db.PingContext(ctx)
}

// URL returns the URL of the server's database for its superuser.
func (s *Server) URL() string { return s.URLFor("postgres") }

// URLFor returns the URL of the server's database for a role.
func (s *Server) URLFor(role string) string {
	at := url.URL{Scheme: "postgres", User: url.User(role), Host: s.Address(), Path: "/postgres", RawQuery: "sslmode=disable"}
	return at.String()
}

// Address returns the host and port on which the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Exec runs statements as the superuser.
func (s *Server) Exec(statements string) error {
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statements)
	return err
}

// Stop stops the server, which ends its connections.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server at once, like a machine that fails.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(how syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Signal(how)
	if err == nil {
		_ = s.cmd.Wait() // it ends by the signal
	}
	s.cmd = nil
	return err
}

// Remove stops the server and removes its data.
func (s *Server) Remove() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }

// programs returns the folder of initdb and postgres: the one in PATH, else that of the newest
// version.
func programs() (string, error) {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(all, func(a, b string) int {
		return version(b) - version(a)
	})
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			all = append([]string{filepath.Dir(path)}, all...)
		}
	}
	for _, dir := range all {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// version returns the VERSION in /usr/lib/postgresql/VERSION/bin.
func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// another returns a user that may run a server: postgres, or else nobody.
func another() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// FreePort returns a free port of this machine.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Freeze stops all of the server's processes, like a machine that hangs: it takes connections and
// does not answer. Thaw continues them.
func (s *Server) Freeze() error { return s.all(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (s *Server) Thaw() error { return s.all(syscall.SIGCONT) }

// all sends a signal to the server and then to its children, so that it starts no more.
func (s *Server) all(signal syscall.Signal) error {
	server := s.cmd.Process.Pid
	errs := []error{s.cmd.Process.Signal(signal)}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	errs = append(errs, err)
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT …
		before, after, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(server) {
			continue
		}
		pid, _, _ := strings.Cut(before, " ")
		child, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(child, signal)
		}
		if !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fill makes the data of a new server: a copy of what is in kept, or what initdb makes, which is then
// made lean and put there, unless kept is empty.
func (s *Server) fill(kept string) error {
	if kept == "" {
		return s.initdb()
	}
	program, err := os.Stat(filepath.Join(s.bin, "initdb"))
	if err != nil {
		return err
	}
	// Another version of the programs makes other data.
	kept = filepath.Join(kept, fmt.Sprintf("lean-%s-%d", strings.ReplaceAll(strings.Trim(s.bin, "/"), "/", "-"), program.ModTime().Unix()))
	if err := copied(kept, s.data(), s.owns); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(s.initdb(), s.lean()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(kept), "half")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	whole := filepath.Join(half, "data")
	if err := copied(s.data(), whole, nil); err != nil {
		return err
	}
	if err := os.Rename(whole, kept); err != nil && !errors.Is(err, fs.ErrExist) { // another process was quicker
		return err
	}
	return nil
}

func (s *Server) initdb() error {
	// Small segments of the log make data that is quickly copied.
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--wal-segsize=1", s.data())
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.owns}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// lean takes out of new data what nobody misses: the databases for making others, and recycled
// segments of the log. What remains is less than half of it, in a third of the files.
func (s *Server) lean() error {
	single := exec.Command(filepath.Join(s.bin, "postgres"), "--single", "-D", s.data(), "-c", "fsync=off", "-c", "min_wal_size=2MB", "-c", "max_wal_size=2MB", "postgres")
	single.Dir, single.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.owns}
	single.Stdin = strings.NewReader("UPDATE pg_database SET datistemplate = false;\nDROP DATABASE template0;\nDROP DATABASE template1;\nVACUUM FULL;\n")
	if out, err := single.CombinedOutput(); err != nil {
		return fmt.Errorf("the data is not made lean: %w: %s", err, out)
	}
	return nil
}

// copied copies a folder of files and folders. The copy is its owner's alone, who is this process's
// user if owner is nil.
func copied(from, to string, owner *syscall.Credential) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, within)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(path, target)
		}
		if err == nil && owner != nil {
			err = os.Chown(target, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
