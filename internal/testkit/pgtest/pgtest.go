// Package pgtest gives tests PostgreSQL servers of their own. Where none is installed the tests say
// so, and fail in CI.
package pgtest

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/testkit"
	"dibs/internal/testkit/postgres"
)

// Server is a PostgreSQL server for a test.
type Server = postgres.Server

// ErrMissing says that no PostgreSQL server is installed.
var ErrMissing = postgres.ErrMissing

// New creates the data of a server; it does not start it. See postgres.New. The data is made once on
// a machine, kept in the user's cache, and copied from there into memory, if testkit.Memory finds some.
func New(settings ...string) (*Server, error) {
	return postgres.NewFrom(kept, testkit.Memory(), settings...)
}

// kept is where that is, whatever a test sets HOME to; empty where the user has no cache.
var kept = func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "dibs-pgtest")
}()

// Run returns a server that runs until the test is over. If none is installed, it skips the test,
// or fails it if CI is set. With testkit.Quick it skips the test, too: such tests stop their server,
// wait for it, or share it among processes.
func Run(t testing.TB, settings ...string) *Server {
	t.Helper()
	testkit.TakesSeconds(t)
	s, err := New(settings...)
	if errors.Is(err, ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Write writes a file beside a server's data, see postgres.Server.Write.
func Write(t testing.TB, s *Server, name string, content []byte) string {
	t.Helper()
	path, err := s.Write(name, content)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// env has the URL of the server for journals, for tests and the processes that they start.
const env = "JOURNAL_TEST_POSTGRES"

// URL returns the URL of the server for the journals of tests; empty while they are in SQLite files.
func URL() string { return os.Getenv(env) }

// Both runs the tests of a package with journals in SQLite files, and then those in core, a pattern of
// their names, with journals on a PostgreSQL server, see URL: one of each kind of thing that is kept, since
// a statement is the same for both. Under the race detector it is those in watched, too, and with TEST_LONG
// all of them, with TEST_LONG=once without the first run. It returns the exit code. Benchmarks and
// fuzzing run with SQLite only. If no server is installed, Both says so, and fails if CI is set.
func Both(m *testing.M, run func(*testing.M) int, core, watched string) (code int) {
	second = regexp.MustCompile(core + "|" + watched)
	long := os.Getenv("TEST_LONG")
	if long != "once" {
		code = run(m)
	}
	for _, name := range []string{"test.bench", "test.fuzz", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return code
		}
	}
	server, err := New()
	if err == nil {
		defer server.Remove()
		err = server.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "journals in PostgreSQL are not tested:", err)
		if os.Getenv("CI") != "" || !errors.Is(err, ErrMissing) {
			return max(code, 1)
		}
		return code
	}
	if chosen := flag.Lookup("test.run").Value; long == "" && chosen.String() == "" {
		if testkit.Race {
			core += "|" + watched
		}
		chosen.Set(core)
	}
	// go test keeps a result together with a log of what the tests read. Only the first run finishes
	// that log. A second one would leave half a line in it, and go test would keep nothing.
	flag.Lookup("test.testlogfile").Value.Set("")
	os.Setenv(env, server.URL())
	defer os.Unsetenv(env)
	fmt.Println("once more, with journals in PostgreSQL:")
	if checks := flag.Lookup("rapid.checks"); checks != nil && checks.Value.String() == checks.DefValue {
		checks.Value.Set("20") // each creates a journal of its own, which takes a while
	}
	return max(code, run(m))
}

// second matches the tests of the second run of Both; nil without Both.
var second *regexp.Regexp

// OnlyPostgres skips a test that is about PostgreSQL while journals are in SQLite files. It fails one
// that Both would not run a second time.
func OnlyPostgres(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	switch {
	case URL() != "":
	case second != nil && !second.MatchString(name):
		t.Fatal("it never runs: neither pattern of pgtest.Both matches its name")
	default:
		t.Skip("this is about PostgreSQL")
	}
}

// OnlySQLite skips a test that is about SQLite's file while journals are in PostgreSQL.
func OnlySQLite(t testing.TB) {
	if URL() != "" {
		t.Skip("this is about SQLite's file")
	}
}

// TakesLong skips a test that makes transactions by the thousand while journals are in
// PostgreSQL, where each takes milliseconds.
func TakesLong(t testing.TB) {
	if URL() != "" {
		t.Skip("this makes thousands of transactions")
	}
}

// Use puts the journals of a test into PostgreSQL, if journaltest opens them.
func Use(t *testing.T) {
	t.Helper()
	t.Setenv(env, Run(t).URL())
}

// Pooled returns the URL of a server behind a pooler (PgBouncer) with three connections. mode is the
// pool_mode: transaction, session or statement. If no pooler is installed, it skips the test, or fails
// it if CI is set.
func Pooled(t testing.TB, s *Server, mode string) string {
	where := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: Pooler(t, s, s.Address(), mode), Path: "/postgres", RawQuery: "sslmode=disable"}
	return where.String()
}

// Pooler is Pooled for a server's other address, such as that of a way to it. It returns the pooler's
// address. More settings of the pooler are NAME = VALUE.
func Pooler(t testing.TB, s *Server, server, mode string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // where Debian has it
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	port, err := postgres.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	host, at, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf(`[databases]
postgres = host=%s port=%s dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = %s
default_pool_size = 3
%s
`, host, at, port, mode, strings.Join(settings, "\n"))
	cmd := s.Command(program, "--quiet", Write(t, s, "pgbouncer.ini", []byte(content)))
	if err := postgres.Begin(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatal(err)
		}
	}
	return address
}
