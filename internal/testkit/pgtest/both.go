package pgtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"dibs/internal/testkit"
)

// env has the URL of the server for journals, for tests and the processes that they start.
const env = "JOURNAL_TEST_POSTGRES"

// URL returns the URL of the server for the journals of tests; empty while they are in SQLite files.
func URL() string { return os.Getenv(env) }

// Both runs the tests of a package with journals in SQLite files, and then again with journals on a
// PostgreSQL server, see URL. It returns the exit code. Benchmarks and fuzzing run with SQLite only.
// If no server is installed, Both says so, and fails if CI is set.
//
// With -short the second run has only the tests in core, a pattern of their names, and under the
// race detector those in watched, too.
func Both(m *testing.M, run func(*testing.M) int, core, watched string) int {
	code := run(m)
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
	if chosen := flag.Lookup("test.run").Value; testing.Short() && chosen.String() == "" {
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
