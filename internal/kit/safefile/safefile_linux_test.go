package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/kit/safefile"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// The users of these tests have numbers but no names.
const (
	me      = 64001
	mallory = 64002
	group   = 64100
)

// place returns a directory that every user may enter, and only root may write.
func place(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	dir, err := os.MkdirTemp("", "dibs")
	do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	do(t, os.Chmod(dir, 0o711))
	return dir
}

// put makes a directory, if the mode says so, or a file.
func put(t *testing.T, path string, mode fs.FileMode, uid, gid int) {
	t.Helper()
	err := os.MkdirAll(path, 0o700)
	if !mode.IsDir() {
		err = errors.Join(os.Remove(path), os.WriteFile(path, []byte("content"), 0o600))
	}
	do(t, errors.Join(err, os.Chown(path, uid, gid), os.Chmod(path, mode)))
}

func says(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func TestDirectories(t *testing.T) {
	type dir struct {
		mode     fs.FileMode
		uid, gid int
	}
	for name, tt := range map[string]struct {
		above, dir   dir
		want, shared string // the error; empty for none
	}{
		"one's own":                {dir{0o755, 0, 0}, dir{0o700, me, me}, "", ""},
		"root's":                   {dir{0o755, 0, 0}, dir{0o755, 0, 0}, "", ""},
		"one's own in a sticky":    {dir{0o777 | fs.ModeSticky, 0, 0}, dir{0o700, me, me}, "", ""},
		"for a group of one's own": {dir{0o775, me, me}, dir{0o775, me, me}, "", ""},
		"another's":                {dir{0o755, 0, 0}, dir{0o755, mallory, me}, "user 64002", "user 64002"},
		"another's in a sticky":    {dir{0o777 | fs.ModeSticky, 0, 0}, dir{0o755, mallory, me}, "user 64002", "user 64002"},
		"below another's":          {dir{0o755, mallory, me}, dir{0o700, me, me}, "user 64002", "user 64002"},
		"for a group":              {dir{0o755, 0, 0}, dir{0o770, me, group}, "group 64100", "group 64100"},
		"below one for a group":    {dir{0o775, me, group}, dir{0o700, me, me}, "group 64100", "group 64100"},
		"for everybody":            {dir{0o755, 0, 0}, dir{0o777, me, me}, "every user of this machine", "every user of this machine"},
		"below one for everybody":  {dir{0o777, 0, 0}, dir{0o700, me, me}, "every user of this machine", "every user of this machine"},
		"sticky":                   {dir{0o755, 0, 0}, dir{0o777 | fs.ModeSticky, 0, 0}, "every user of this machine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			above := filepath.Join(place(t), "above")
			path := filepath.Join(above, "dir")
			put(t, above, tt.above.mode|fs.ModeDir, tt.above.uid, tt.above.gid)
			put(t, path, tt.dir.mode|fs.ModeDir, tt.dir.uid, tt.dir.gid)
			testkit.AsUser(t, me, me, func() {
				says(t, "MakeDirectory", safefile.MakeDirectory(path), tt.want)
				says(t, "MakeShared", safefile.MakeShared(path), tt.shared)
			})
		})
	}
}

func TestMissingDirectories(t *testing.T) {
	dir := place(t)
	own, foreign := filepath.Join(dir, "own"), filepath.Join(dir, "foreign")
	put(t, own, fs.ModeDir|0o755, me, me)
	put(t, foreign, fs.ModeDir|0o777, mallory, mallory)
	testkit.AsUser(t, me, me, func() {
		made := filepath.Join(own, "a", "b")
		says(t, "below one's own", safefile.MakeDirectory(made), "")
		if info, err := os.Stat(made); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%v, %v; want mode 0700", info, err)
		}
		says(t, "below another's", safefile.MakeDirectory(filepath.Join(foreign, "a")), "user 64002")
		if _, err := os.Stat(filepath.Join(foreign, "a")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was made all the same: %v", err)
		}
	})
}

// TestLinkedDirectories reaches a directory over another user's link.
func TestLinkedDirectories(t *testing.T) {
	dir := place(t)
	sticky, own := filepath.Join(dir, "tmp"), filepath.Join(dir, "own")
	put(t, sticky, fs.ModeDir|fs.ModeSticky|0o777, 0, 0)
	put(t, own, fs.ModeDir|0o700, me, me)
	for name, uid := range map[string]int{"mine": me, "another's": mallory} {
		link := filepath.Join(sticky, name)
		do(t, errors.Join(os.Symlink("../own", link), os.Lchown(link, uid, uid)))
		want := ""
		if uid == mallory {
			want = "user 64002"
		}
		testkit.AsUser(t, me, me, func() { says(t, name, safefile.MakeDirectory(link), want) })
	}
	do(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	says(t, "a loop", safefile.MakeDirectory(filepath.Join(dir, "loop")), unix.ELOOP.Error())
}

func TestFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
		link     bool
		want     string
	}{
		"one's own":           {0o600, me, me, false, ""},
		"one's own, readable": {0o644, me, group, false, ""},
		"another's":           {0o666, mallory, me, false, "user 64002"},
		"for a group":         {0o660, me, group, false, "group 64100"},
		"for everybody":       {0o606, me, me, false, "every user"},
		"a link":              {0o600, me, me, true, "is a link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			path := filepath.Join(dir, "file")
			put(t, path, tt.mode, tt.uid, tt.gid)
			if tt.link {
				do(t, os.Symlink(path, path+".link"))
				path += ".link"
			}
			info, err := os.Lstat(path)
			do(t, err)
			testkit.AsUser(t, me, me, func() {
				f, err := safefile.Open(path, os.O_RDWR, 0)
				if err == nil {
					f.Close()
				}
				says(t, "Open", err, tt.want)
				says(t, "Check", safefile.Check(path, info), tt.want)
			})
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		path := filepath.Join(place(t), "pipe")
		do(t, unix.Mkfifo(path, 0o600))
		_, err := safefile.Open(path, os.O_RDONLY, 0) // does not wait for a writer
		says(t, "Open", err, "is not a file")
	})
}

// TestNamedFiles reads files that other users may have put there.
func TestNamedFiles(t *testing.T) {
	dir := place(t)
	home, sticky := filepath.Join(dir, "ann"), filepath.Join(dir, "tmp")
	put(t, home, fs.ModeDir|0o755, mallory, mallory) // root gave it to its owner
	put(t, filepath.Join(home, "file"), 0o644, mallory, mallory)
	put(t, filepath.Join(home, "open"), 0o646, mallory, mallory)
	put(t, sticky, fs.ModeDir|fs.ModeSticky|0o777, 0, 0)
	put(t, filepath.Join(sticky, "mine"), 0o600, me, me)
	put(t, filepath.Join(sticky, "another's"), 0o644, mallory, mallory)
	put(t, filepath.Join(sticky, "dir"), fs.ModeDir|0o755, mallory, mallory)
	put(t, filepath.Join(sticky, "dir", "file"), 0o644, mallory, mallory)
	if err := errors.Join(
		os.Symlink("../ann/file", filepath.Join(sticky, "root's link")),
		os.Symlink("mine", filepath.Join(sticky, "link")), os.Lchown(filepath.Join(sticky, "link"), mallory, mallory),
	); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"ann/file":        "",
		"ann/open":        "every user",
		"tmp/mine":        "",
		"tmp/another's":   "user 64002",
		"tmp/dir/file":    "user 64002",
		"tmp/root's link": "",
		"tmp/link":        "user 64002",
		"ann/none":        "no such file",
		"tmp":             "is not a file",
	} {
		testkit.AsUser(t, me, me, func() {
			f, err := safefile.OpenNamed(filepath.Join(dir, path))
			if err == nil {
				f.Close()
			}
			says(t, path, err, want)
		})
	}
}

// A scratch file is removed once nobody has it open, and no other file is.
func TestRemoveAbandoned(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	make := func() *os.File {
		f, err := safefile.Scratch("dibs-test-", ".md")
		do(t, err)
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

// do fails the test at once if there was an error.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
