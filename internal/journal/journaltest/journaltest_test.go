package journaltest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"dibs/internal/journal"
	"dibs/internal/journal/journaltest"
)

// What is made is what the journal makes of no file, byte for byte, and nothing is left
// for it to do.
func TestMake(t *testing.T) {
	dir := t.TempDir()
	made, opened := filepath.Join(dir, "made", "journal.db"), filepath.Join(dir, "opened", "journal.db")
	if err := journaltest.Make(made); err != nil {
		t.Fatal(err)
	}
	before := read(t, made)
	for _, path := range []string{made, opened} {
		j, err := journal.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := read(t, made); !bytes.Equal(before, after) || !bytes.Equal(after, read(t, opened)) {
		t.Error("what is made is not what the journal makes of no file")
	}
	if info, err := os.Stat(made); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
}

func TestMakeLeavesAloneWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := journaltest.Make(path); err != nil || string(read(t, path)) != "mine" {
		t.Errorf("%v, and it is %q", err, read(t, path))
	}
}

// read returns the content of a file, without how often it was changed, which SQLite
// counts in two places of it.
func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 100 {
		clear(data[24:28])
		clear(data[92:96])
	}
	return data
}
