package journal_test

import (
	"dibs/internal/testkit/pgtest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/journal"
)

// A daemon that was killed before the first journal was whole leaves no obstacle.
func TestAnEmptyFileIsANewJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	write(t, path, nil)
	if found, err := journal.Inspect(t.Context(), path); err != nil || found.Live != nil || found.Owed != nil {
		t.Errorf("Inspect = %+v, %v; want nothing", found, err)
	}
	j := reopen(t, open(t, path)) // nothing is made twice
	if err := j.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A journal of another schema is refused before anything in it is changed, whoever looks.
func TestAnotherSchemaIsLeftAlone(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	filled(t, path)
	runSQL(t, path, "UPDATE meta SET value = 'of another version' WHERE key = 'schema'")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if j, err := journal.Open(t.Context(), path); err == nil {
		j.Close()
		t.Error("Open succeeded")
	}
	if _, err := journal.Inspect(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another schema") {
		t.Errorf("Inspect = %v, want that it has another schema", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed, err = %v", err)
	}
}
