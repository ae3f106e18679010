package daemon_test

import (
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"dibs/internal/api/client"
	"dibs/internal/daemon"
	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"

	"modernc.org/sqlite"
)

// reaper kills a daemon, like kill -9, at one of its steps: before a commit of its journal, and
// before, during and after writing an answer. What remains is the journal's files at that moment.
// Callers and Notion get nothing of what it does afterwards.
type reaper struct {
	w *world
	o daemon.Options
	n *node

	mu    sync.Mutex
	at    int // kills at that step after arm; 0 for never
	armed bool
	steps int
	dead  string // at which kind of step the daemon was killed; empty while it lives
	// passed, if set, is told of each step of a daemon that lives, and of its death.
	passed func(kind string, dead bool)
	only   string // the kind of steps that count; empty for all
	left   map[string][]byte
	conns  []net.Conn

	mutant mutant
	behind map[string][]byte // the files before the last commit, for a late mutant
}

// mutant is a daemon with a fault.
type mutant struct {
	// late commits after answering: the last commit before the kill is lost.
	late bool
	// does is SQL that its journal executes by itself, comes SQL at a start.
	does, comes string
}

// reapers are the reapers by the paths of their journals.
var reapers sync.Map

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		u, err := url.Parse(dsn)
		if err != nil {
			return err
		}
		if r, ok := reapers.Load(u.Path); ok {
			conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
				r.(*reaper).step(commit)
				return 0
			})
		}
		return nil
	})
}

// The kinds of steps.
const (
	commit   = "before a commit"
	answer   = "before an answer"
	half     = "in the middle of an answer"
	answered = "after an answer"
)

// reap starts a daemon that is killed at a step after arm is called.
func (w *world) reap(o daemon.Options, at int, m mutant) *reaper {
	w.Helper()
	r := w.newReaper(o, at, m)
	r.sql(m.does)
	r.n = w.start(r.o)
	return r
}

// newReaper is reap for a daemon that is yet to be started.
func (w *world) newReaper(o daemon.Options, at int, m mutant) *reaper {
	r := &reaper{w: w, o: o, at: at, mutant: m}
	r.o.Transport = mortalTransport{o.Transport, r}
	w.tap = func(l net.Listener) net.Listener { return mortalListener{l, r} }
	reapers.Store(r.path(), r)
	w.Cleanup(func() { reapers.Delete(r.path()) })
	return r
}

func (r *reaper) path() string { return filepath.Join(r.o.Config.StateDir, journal.FileName) }

// sql executes a statement on the journal while it is closed.
func (r *reaper) sql(statement string) {
	r.w.Helper()
	if statement == "" {
		return
	}
	mustDo(r.w, journaltest.Make(r.path()))
	db, err := sql.Open("sqlite", r.path())
	mustDo(r.w, err)
	_, err = db.ExecContext(r.w.Context(), statement)
	mustDo(r.w, errors.Join(err, db.Close()))
}

// arm starts counting steps.
func (r *reaper) arm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = true
}

// count returns the number of steps since.
func (r *reaper) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

// step is called at each step, and reports whether the daemon is dead.
func (r *reaper) step(kind string) (dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed || r.dead != "" {
		return r.dead != ""
	}
	if r.only == "" || r.only == kind {
		r.steps++
	}
	dead = r.steps == r.at && (r.only == "" || r.only == kind)
	if r.passed != nil {
		defer r.passed(kind, dead)
	}
	if dead {
		r.dead = kind
		if r.left = r.files(); r.mutant.late && r.behind != nil {
			r.left = r.behind
		}
		for _, conn := range r.conns {
			conn.Close()
		}
		return true
	}
	if r.mutant.late && kind == commit {
		r.behind = r.files()
	}
	return false
}

// files reads the journal's files. The WAL comes first: if a checkpoint comes in between, both
// files have what it moves.
func (r *reaper) files() map[string][]byte {
	files := make(map[string][]byte)
	for _, suffix := range []string{"-wal", ""} {
		data, err := os.ReadFile(r.path() + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.w.Error(err)
		}
		files[suffix] = data
	}
	return files
}

// client returns a client of the running daemon.
func (r *reaper) client() *client.Client { return r.n.Client }

// died reports whether the daemon was killed and is not back.
func (r *reaper) died() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead != ""
}

// back starts a daemon on the files of the killed one. It is not killed again.
func (r *reaper) back() {
	r.w.Helper()
	r.n.stop() // only the goroutines are left of it
	r.leave(r.left)
	if err := os.Remove(r.path() + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.w.Fatal(err)
	}
	r.sql(r.mutant.comes)
	r.mu.Lock()
	r.at, r.dead, r.conns = 0, "", nil
	r.mu.Unlock()
	r.n = r.w.start(r.o)
}

// leave has files be what is left of a daemon.
func (r *reaper) leave(files map[string][]byte) {
	r.w.Helper()
	mustDo(r.w, os.MkdirAll(filepath.Dir(r.path()), 0o700))
	for suffix, data := range files {
		mustDo(r.w, os.WriteFile(r.path()+suffix, data, 0o600))
	}
}

// within has the daemon be killed at the n-th step of a kind, empty for any, from now on.
func (r *reaper) within(n int, kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.at, r.only = true, r.steps+n, kind
}

// remains returns at which kind of step the daemon was killed, and what is left of it.
func (r *reaper) remains() (dead string, left map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead, r.left
}

// strike kills the daemon wherever it is.
func (r *reaper) strike() {
	r.within(1, "") // a step of another goroutine will do as well
	r.step("at rest")
}

// kill kills the daemon wherever it is, and restarts it.
func (r *reaper) kill() {
	r.strike()
	r.back()
}

type mortalListener struct {
	net.Listener
	r *reaper
}

func (l mortalListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.r.conns = append(l.r.conns, conn); l.r.dead != "" {
		conn.Close()
	}
	return mortalConn{conn, l.r}, nil
}

type mortalConn struct {
	net.Conn
	r *reaper
}

func (c mortalConn) Write(data []byte) (n int, err error) {
	if c.r.step(answer) {
		return 0, net.ErrClosed
	}
	if n, err = c.Conn.Write(data[:len(data)/2]); err != nil {
		return n, err
	}
	if c.r.step(half) {
		return n, net.ErrClosed
	}
	m, err := c.Conn.Write(data[n:])
	c.r.step(answered)
	return n + m, err
}

type mortalTransport struct {
	http.RoundTripper
	r *reaper
}

func (t mortalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.r.died() {
		return nil, io.ErrUnexpectedEOF
	}
	return t.RoundTripper.RoundTrip(r)
}
