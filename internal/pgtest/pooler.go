package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"dibs/internal/postgres"
)

// Pooled returns the URL of a server behind a pooler (PgBouncer) with three connections. mode is the
// pool_mode: transaction, session or statement. If no pooler is installed, it skips the test, or fails
// it if CI is set.
func Pooled(t testing.TB, s *Server, mode string) string {
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
	host, at, err := net.SplitHostPort(s.Address())
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
pool_mode = %s
default_pool_size = 3
`, host, at, port, mode)
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
	where := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: address, Path: "/postgres", RawQuery: "sslmode=disable"}
	return where.String()
}
