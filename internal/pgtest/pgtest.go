// Package pgtest gives tests PostgreSQL servers of their own.
package pgtest

import (
	"errors"
	"os"
	"testing"

	"dibs/internal/postgres"
)

// Server is a PostgreSQL server for a test.
type Server = postgres.Server

// ErrMissing says that no PostgreSQL server is installed.
var ErrMissing = postgres.ErrMissing

// New creates the data of a server; it does not start it. See postgres.New.
func New(settings ...string) (*Server, error) { return postgres.New(settings...) }

// Run returns a server that runs until the test is over. If none is installed, it skips the test,
// or fails it if CI is set.
func Run(t testing.TB, settings ...string) *Server {
	t.Helper()
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
