package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"dibs/internal/testkit/postgres"
)

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
