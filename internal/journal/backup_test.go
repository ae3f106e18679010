package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/journal"
	"dibs/internal/testkit/pgtest"
)

func TestBackup(t *testing.T) {
	pgtest.OnlySQLite(t)
	path := filepath.Join(t.TempDir(), journal.FileName)
	j := open(t, path) // and stays open: a daemon runs
	if err := j.SetMeta(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := journal.Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v; want mode 0600", info.Mode(), err)
	}
	if v, err := journal.ReadMeta(t.Context(), to, "k"); err != nil || v != "v" {
		t.Errorf("the copy has %q, %v", v, err)
	}
	if err := journal.Backup(t.Context(), path, to); !errors.Is(err, journal.ErrExists) {
		t.Errorf("a second one: %v, want ErrExists", err)
	}
	if err := journal.Backup(t.Context(), path, filepath.Join(t.TempDir(), "no", "copy.db")); err == nil {
		t.Error("into a directory that is not there: no error")
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
		t.Errorf("beside the copy there is %v, %v", left, err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	write(t, damaged, data[:len(data)/2])
	if err := journal.Backup(t.Context(), damaged, filepath.Join(t.TempDir(), "copy.db")); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("of a damaged journal: %v", err)
	}
}
