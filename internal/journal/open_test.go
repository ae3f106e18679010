package journal_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/task"
	"dibs/internal/testkit/pgtest"
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
		do(t, err)
		got[name] = info.Mode().Perm()
	}
	want := map[string]fs.FileMode{"": 0o700, "journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
	same(t, "modes", want, got)
}

func TestOpenTakesAnyPath(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), "a b?c#d%41&_pragma=x;", "journal.db")
	j := open(t, path)
	if j.Path() != path {
		t.Errorf("Path() = %q, want %q", j.Path(), path)
	}
	check(t, errOf(os.Stat(path)))
}

func TestOpenRefuses(t *testing.T) {
	pgtest.OnlySQLite(t)
	type prepare = func(t *testing.T, path string)
	used := func(script string) prepare {
		return func(t *testing.T, path string) { filled(t, path); runSQL(t, path, script) }
	}
	damaged := func(change func(data []byte) []byte) prepare {
		return func(t *testing.T, path string) { write(t, path, change(filled(t, path))) }
	}
	for name, test := range map[string]struct {
		prepare prepare
		want    []string // parts of the error
	}{
		"of a newer schema": {
			used("UPDATE meta SET value = '7' WHERE key = 'schema'"), []string{"has schema 7", "knows schemas up to 2", "use the dibs that made it"},
		},
		"of no schema": {used("DELETE FROM meta WHERE key = 'schema'"), []string{"no journal of dibs", "move it"}},
		"another program's": {
			func(t *testing.T, path string) { runSQL(t, path, "CREATE TABLE bookmarks (url TEXT)") }, []string{"no journal of dibs", "move it"},
		},
		"not a database": {
			func(t *testing.T, path string) { write(t, path, []byte(strings.Repeat("this is no journal\n", 1000))) },
			[]string{"not a database", "move it"},
		},
		"cut off":               {damaged(func(data []byte) []byte { return data[:len(data)*3/5] }), []string{"malformed", "move it"}},
		"cut off in the header": {damaged(func(data []byte) []byte { return data[:70] }), []string{"malformed", "move it"}},
		"overwritten at its end": {
			damaged(func(data []byte) []byte {
				for i := len(data) * 3 / 4; i < len(data); i++ { // behind the schema
					data[i] ^= 0x55
				}
				return data
			}),
			[]string{"damaged", "move it"},
		},
		"directory cannot be made": {func(t *testing.T, path string) { write(t, filepath.Dir(path), nil) }, []string{"not a directory", "state_dir"}},
		"a directory in its place": {func(t *testing.T, path string) { do(t, os.MkdirAll(path, 0o700)) }, []string{"unable to open", "state_dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "journal.db")
			test.prepare(t, path)
			before, _ := os.ReadFile(path)
			if _, err := journal.Inspect(t.Context(), path); err == nil {
				t.Error("Inspect succeeded")
			}
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
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
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
	do(t, j.Close())
	data, err := os.ReadFile(path)
	do(t, err)
	return data
}

// write writes a file, and makes the directories it needs.
func write(t testing.TB, path string, data []byte) {
	t.Helper()
	do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	do(t, os.WriteFile(path, data, 0o600))
}

// runSQL runs a script on the file at path, which it makes if need be.
func runSQL(t testing.TB, path, script string) {
	t.Helper()
	do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	db, err := sql.Open("sqlite", path)
	do(t, err)
	defer db.Close()
	do(t, errOf(db.ExecContext(t.Context(), script)))
}

// A daemon that was killed before the first journal was whole leaves no obstacle.
func TestAnEmptyFileIsANewJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	write(t, path, nil)
	if found, err := journal.Inspect(t.Context(), path); err != nil || found.Live != nil || found.Owed != nil {
		t.Errorf("Inspect = %+v, %v; want nothing", found, err)
	}
	j := reopen(t, open(t, path)) // nothing is made twice
	check(t, j.Check(t.Context()))
}

func TestInspect(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), journal.FileName)
	if _, err := journal.Inspect(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: err = %v, want that there is none", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the look made a file")
	}
	j := open(t, path)
	event := claim.Fact{ID: "01KA8XQ5V8ZJ6N3T4R7W9Y2M1D", At: time.Now(), Kind: claim.KindCompleted, Agent: "Sandman", Task: "11111111-2222-3333-4444-555555555555"}
	do(t, j.Record(t.Context(), event))
	look := func() {
		t.Helper()
		got, err := journal.Inspect(t.Context(), path)
		if err != nil || len(got.Owed) != 1 || got.Owed[0].Depth != 1 {
			t.Errorf("%+v, err = %v, want one entry owed", got, err)
		}
	}
	look() // while it is open
	crashed := filepath.Join(t.TempDir(), journal.FileName)
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		do(t, err)
		do(t, os.WriteFile(crashed+suffix, data, 0o600))
	}
	do(t, j.Close())
	before, err := os.ReadFile(path)
	do(t, err)
	look()
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the look changed the file, err = %v", err)
	}
	do(t, os.WriteFile(path, append(before[:len(before)-4096:len(before)-4096], make([]byte, 4096)...), 0o600))
	if _, err := journal.Inspect(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("of a damaged file: err = %v, want one that names it", err)
	}

	// What a daemon that was killed has yet to move into the file stays where it is.
	path = crashed
	before, err = os.ReadFile(path + "-wal")
	if err != nil || len(before) == 0 {
		t.Fatalf("err = %v, want a log of %d bytes to be longer", err, len(before))
	}
	look()
	if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(before) {
		t.Errorf("the look changed what a killed daemon left, err = %v", err)
	}
}
