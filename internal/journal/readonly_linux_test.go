package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/journal"
	"dibs/internal/testkit"
	"dibs/internal/testkit/pgtest"
)

// A journal that its user cannot write is refused in one line that says what to do.
func TestReadOnly(t *testing.T) {
	pgtest.OnlySQLite(t)
	const reader = 64001
	for name, modes := range map[string]struct {
		dir, file os.FileMode
		owned     string // what belongs to the user; the rest is root's
	}{
		"file":                     {0o755, 0o644, "."},
		"directory":                {0o755, 0o600, "journal.db"},
		"directory without a file": {0o755, 0, ""},
		"unreadable":               {0o755, 0o600, "."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, "journal.db")
			do(t, os.MkdirAll(dir, 0o700))
			if modes.file != 0 {
				do(t, open(t, path).Close())
				do(t, os.Chmod(path, modes.file))
			}
			do(t, os.Chmod(dir, modes.dir))
			if os.Getuid() == 0 && modes.owned != "" {
				do(t, os.Chown(filepath.Join(dir, modes.owned), reader, reader))
			}
			do(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711))
			testkit.AsUser(t, reader, reader, func() {
				j, err := journal.Open(t.Context(), path)
				if err == nil {
					j.Close()
					t.Error("Open succeeded")
					return
				}
				for _, part := range []string{dir, "make the directory and the files in it writable"} {
					if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
						t.Errorf("error %q does not say %q in one line", err, part)
					}
				}
			})
		})
	}
}
