package journal_test

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"

	"github.com/google/go-cmp/cmp"
)

func TestOpenMakesPrivateFiles(t *testing.T) {
	pgtest.OnlySQLite(t)
	dir := filepath.Join(t.TempDir(), "state", "dibs")
	j := open(t, filepath.Join(dir, "journal.db"))
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil { // makes the WAL
		t.Fatal(err)
	}
	got := map[string]fs.FileMode{}
	for _, name := range []string{"", "journal.db", "journal.db-wal", "journal.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode().Perm()
	}
	want := map[string]fs.FileMode{"": 0o700, "journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestOpenTakesAnyPath(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), "a b?c#d%41&_pragma=x;", "journal.db")
	j := open(t, path)
	if j.Path() != path {
		t.Errorf("Path() = %q, want %q", j.Path(), path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	pgtest.OnlySQLite(t)
	tests := map[string]struct {
		prepare func(t *testing.T, path string)
		want    []string // parts of the error
	}{
		"another schema": {
			func(t *testing.T, path string) {
				filled(t, path)
				runSQL(t, path, "UPDATE meta SET value = 'of another version' WHERE key = 'schema'")
			},
			[]string{"another schema", "the version of dibs that made it", "move it", "lost"},
		},
		"of a version that did not say which schema it has": {
			func(t *testing.T, path string) {
				filled(t, path)
				runSQL(t, path, "DELETE FROM meta WHERE key = 'schema'")
			},
			[]string{"another schema", "move it"},
		},
		"another program's": {
			func(t *testing.T, path string) {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, path, nil)
				runSQL(t, path, "CREATE TABLE bookmarks (url TEXT)")
			},
			[]string{"another schema", "move it"},
		},
		"not a database": {
			func(t *testing.T, path string) {
				write(t, path, []byte(strings.Repeat("this is no journal\n", 1000)))
			},
			[]string{"not a database", "move it"},
		},
		"cut off": {
			func(t *testing.T, path string) {
				data := filled(t, path)
				write(t, path, data[:len(data)*3/5])
			},
			[]string{"malformed", "move it"},
		},
		"cut off in the header": {
			func(t *testing.T, path string) { write(t, path, filled(t, path)[:70]) },
			[]string{"malformed", "move it"},
		},
		"overwritten at its end": {
			func(t *testing.T, path string) {
				data := filled(t, path)
				for i := len(data) * 3 / 4; i < len(data); i++ { // behind the schema
					data[i] ^= 0x55
				}
				write(t, path, data)
			},
			[]string{"damaged", "move it"},
		},
		"directory cannot be made": {
			func(t *testing.T, path string) { write(t, filepath.Dir(path), nil) },
			[]string{"not a directory", "state_dir"},
		},
		"a directory in its place": {
			func(t *testing.T, path string) {
				if err := os.MkdirAll(path, 0o700); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"unable to open", "state_dir"},
		},
		"directory not writable": {
			func(t *testing.T, path string) {
				if os.Geteuid() == 0 {
					t.Skip("root writes everywhere")
				}
				if err := os.Mkdir(filepath.Dir(path), 0o500); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"permission denied", "state_dir"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "journal.db")
			test.prepare(t, path)
			j, err := journal.Open(t.Context(), path)
			if err == nil {
				j.Close()
				t.Fatal("Open succeeded")
			}
			for _, part := range append(test.want, filepath.Dir(path)) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

// filled returns the content of a journal at path that has been in use.
func filled(t *testing.T, path string) []byte {
	t.Helper()
	j := open(t, path)
	for range 200 {
		grant(t, j, attempt("Sandman", task.ID(claim.NewID(t0)), t0), t0)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write writes a file, and makes the directories it needs.
func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runSQL runs a script on the file at path, which it makes if need be.
func runSQL(t testing.TB, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}
