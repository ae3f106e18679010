package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/config"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// The users of these tests have numbers but no names.
const (
	bob     = 64001
	mallory = 64002
	group   = 64100
)

// home makes a user's folder that everybody can reach.
func home(t *testing.T, uid int, mode fs.FileMode) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	dir, err := os.MkdirTemp("", "dibs")
	do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	do(t, errors.Join(os.Chown(dir, uid, uid), os.Chmod(dir, mode)))
	return dir
}

func wantOwner(t *testing.T, path string, uid, gid int, mode fs.FileMode) {
	t.Helper()
	var stat unix.Stat_t
	info, err := os.Lstat(path)
	do(t, errors.Join(err, unix.Lstat(path, &stat)))
	if int(stat.Uid) != uid || int(stat.Gid) != gid || info.Mode() != mode {
		t.Errorf("%s is %d:%d %v, want %d:%d %v", path, stat.Uid, stat.Gid, info.Mode(), uid, gid, mode)
	}
}

func mine(t *testing.T, path string, uid, gid int, mode fs.FileMode) {
	t.Helper()
	do(t, errors.Join(os.WriteFile(path, []byte("# mine\n"), 0o600), os.Chown(path, uid, gid), os.Chmod(path, mode)))
}

// TestRootWritesForOthers writes, as root, into another user's folder.
func TestRootWritesForOthers(t *testing.T) {
	t.Run("a new file", func(t *testing.T) {
		path := filepath.Join(home(t, bob, 0o755), ".config", "dibs", "config.yaml")
		do(t, config.Default().WriteFile(path, false))
		wantOwner(t, path, bob, bob, 0o600)
		wantOwner(t, filepath.Dir(path), bob, bob, fs.ModeDir|0o700)
		wantOwner(t, filepath.Dir(filepath.Dir(path)), bob, bob, fs.ModeDir|0o700)
	})
	t.Run("in the place of theirs", func(t *testing.T) {
		path := filepath.Join(home(t, bob, 0o755), "config.yaml")
		mine(t, path, bob, group, 0o640)
		do(t, config.Default().WriteFile(path, true))
		wantOwner(t, path, bob, group, 0o640)
		wantOwner(t, path+".bak", bob, group, 0o640)
	})
	t.Run("in the place of a link", func(t *testing.T) {
		path := filepath.Join(home(t, bob, 0o755), "config.yaml")
		precious := filepath.Join(home(t, 0, 0o755), "precious")
		mine(t, precious, 0, 0, 0o640)
		do(t, os.Symlink(precious, path))
		do(t, config.Default().WriteFile(path, true))
		wantOwner(t, path, bob, bob, 0o600)
		wantOwner(t, precious, 0, 0, 0o640)
		if data, err := os.ReadFile(precious); string(data) != "# mine\n" {
			t.Errorf("%q, %v", data, err)
		}
	})
	t.Run("in the place of a file of root's", func(t *testing.T) {
		path := filepath.Join(home(t, bob, 0o755), "config.yaml")
		mine(t, path, 0, 0, 0o644) // perhaps a hard link to another file
		do(t, config.Default().WriteFile(path, true))
		wantOwner(t, path, bob, bob, 0o600)
		wantOwner(t, path+".bak", 0, 0, 0o644)
	})
	t.Run("for a daemon of another user", func(t *testing.T) {
		path := filepath.Join(home(t, 0, 0o755), "config.yaml")
		mine(t, path, 0, group, 0o640)
		do(t, config.Default().WriteFile(path, true))
		wantOwner(t, path, 0, group, 0o640)
	})
}

// TestFilesOfOthers reads configuration files that other users may have made.
func TestFilesOfOthers(t *testing.T) {
	sticky, theirs, roots := home(t, 0, 0o777|fs.ModeSticky), home(t, bob, 0o755), home(t, 0, 0o755)
	mine(t, filepath.Join(sticky, "config.yaml"), mallory, mallory, 0o644)
	mine(t, filepath.Join(sticky, "real.yaml"), bob, bob, 0o644)
	mine(t, filepath.Join(theirs, "config.yaml"), bob, bob, 0o644)
	mine(t, filepath.Join(theirs, "open.yaml"), bob, bob, 0o666)
	mine(t, filepath.Join(roots, "config.yaml"), 0, 0, 0o644)
	links := map[string]string{
		filepath.Join(theirs, "link.yaml"):    "config.yaml",
		filepath.Join(sticky, "planted.yaml"): filepath.Join(theirs, "config.yaml"),
	}
	for link, to := range links {
		do(t, os.Symlink(to, link))
	}
	do(t, os.Lchown(filepath.Join(sticky, "planted.yaml"), mallory, mallory))
	for path, want := range map[string]string{
		filepath.Join(sticky, "config.yaml"):  "user 64002 could change",
		filepath.Join(sticky, "planted.yaml"): "user 64002 could change",
		filepath.Join(sticky, "real.yaml"):    "",
		filepath.Join(theirs, "config.yaml"):  "",
		filepath.Join(theirs, "link.yaml"):    "",
		filepath.Join(theirs, "open.yaml"):    "every user of this machine could change",
		filepath.Join(roots, "config.yaml"):   "",
	} {
		testkit.AsUser(t, bob, bob, func() {
			_, err := config.Load(config.Options{File: path})
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", path, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		})
	}
}
