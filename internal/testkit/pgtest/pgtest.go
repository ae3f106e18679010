// Package pgtest gives tests PostgreSQL servers of their own. Where none is installed the tests say
// so, and fail in CI.
package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

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
