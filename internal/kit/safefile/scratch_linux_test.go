package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"dibs/internal/kit/safefile"
)

// A scratch file is removed once nobody has it open, and no other file is.
func TestRemoveAbandoned(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	make := func() *os.File {
		f, err := safefile.Scratch("dibs-test-", ".md")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	used, left, other := make(), make(), make()
	elsewhere := filepath.Join(t.TempDir(), "mine")
	link, open, folder := filepath.Join(dir, "dibs-test-link.md"), filepath.Join(dir, "dibs-test-open.md"), filepath.Join(dir, "dibs-test-folder.md")
	if err := errors.Join(left.Close(), other.Close(), os.Rename(other.Name(), filepath.Join(dir, "dibs-other.md")),
		os.WriteFile(elsewhere, nil, 0o600), os.Symlink(elsewhere, link), os.Mkdir(folder, 0o700),
		os.WriteFile(open, nil, 0o600), os.Chmod(open, 0o666)); err != nil {
		t.Fatal(err)
	}
	if info, err := used.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	safefile.RemoveAbandoned("dibs-test-", ".md")
	for _, path := range []string{used.Name(), filepath.Join(dir, "dibs-other.md"), elsewhere, link, open, folder} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it was removed: %v", err)
		}
	}
	if _, err := os.Lstat(left.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", left.Name(), err)
	}
}

// Another user's file stays, even if root could remove it.
func TestRemoveAbandonedOfOthers(t *testing.T) {
	dir := place(t)
	t.Setenv("TMPDIR", dir)
	theirs := filepath.Join(dir, "dibs-test-1.md")
	put(t, theirs, 0o600, mallory, mallory)
	safefile.RemoveAbandoned("dibs-test-", ".md")
	if _, err := os.Lstat(theirs); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}
