// Package pgtest gives tests PostgreSQL servers of their own.
package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"dibs/internal/postgres"
	"dibs/internal/testkit"
)

// Server is a server of a test.
type Server = postgres.Server

// ErrMissing says that the machine has no PostgreSQL server.
var ErrMissing = postgres.ErrMissing

// New makes the data of a server that does not run yet, see postgres.New. It is made once on a machine,
// kept in the user's cache, and copied from there.
func New(settings ...string) (*Server, error) { return postgres.NewFrom(kept, settings...) }

// kept is where that is, whatever a test sets HOME to; empty where the user has no cache.
var kept = func() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "dibs-pgtest")
}()

// Run returns a server that runs until the test is over. Where none is installed the test is
// skipped, and fails if CI is set. It is also skipped where only what is quick is wanted: what has
// a server to itself stops it, waits for it, or has several processes share it.
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

// Write puts a file beside a server's data, see postgres.Server.Write.
func Write(t testing.TB, s *Server, name string, content []byte) string {
	t.Helper()
	path, err := s.Write(name, content)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
