package place_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dibs/internal/reserve"
	"dibs/internal/reserve/place"
)

// tree is a folder with a repository in it, two worktrees of which there are:
//
//	plain/                   no repository
//	repo/.git repo/src/a.go repo/[id].tsx repo/link -> src repo/a-link -> src/a.go repo/gone -> ../plain/nothing
//	second/                  a worktree of repo, of the same files
//	repo/sub/                a repository of its own
type tree struct {
	t   *testing.T
	top string
}

func newTree(t *testing.T) tree {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{t, top}
	for _, dir := range []string{"plain", "repo/src/deep", "repo/sub"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"repo/src/a.go", "repo/[id].tsx", "repo/sub/b.go"} {
		if err := os.WriteFile(filepath.Join(top, file), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "src", "a-link": "src/a.go", "gone": "../plain/nothing"} {
		if err := os.Symlink(to, filepath.Join(top, "repo", link)); err != nil {
			t.Fatal(err)
		}
	}
	tr.git("repo", "init", "-q")
	tr.git("repo", "add", "src", "[id].tsx", "link")
	tr.git("repo", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "a")
	tr.git("repo", "worktree", "add", "-q", "../second")
	tr.git("repo/sub", "init", "-q")
	return tr
}

func (tr tree) git(dir string, args ...string) {
	tr.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(tr.top, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// at returns where a target is, with the tree's own folder taken off: its places, in
// their order, each with the path.
func (tr tree) at(t reserve.Target) []string {
	var out []string
	for _, s := range t.At {
		out = append(out, strings.TrimPrefix(s.Place, tr.top+"/")+":"+strings.TrimPrefix(s.Path, tr.top))
	}
	slices.Sort(out)
	return out
}

func TestPaths(t *testing.T) {
	tr := newTree(t)
	for _, tt := range []struct {
		folder, path string
		want         []string
		isFolder     bool
	}{
		{"plain", "x.go", []string{"files:/plain/x.go"}, false},
		{"plain", "x/y/", []string{"files:/plain/x/y"}, true},
		{"repo", "src/a.go", []string{"files:/repo/src/a.go", "repo/.git:/src/a.go"}, false},
		{"second", "src/a.go", []string{"files:/second/src/a.go", "repo/.git:/src/a.go"}, false},
		{"second/src", "../new/file", []string{"files:/second/new/file", "repo/.git:/new/file"}, false},
		{"repo", "../second/src/a.go", []string{"files:/second/src/a.go", "repo/.git:/src/a.go"}, false},
		{"repo", tr.top + "/repo/src", []string{"files:/repo/src", "repo/.git:/src"}, true},
		{"repo", ".", []string{"files:/repo", "repo/.git:/"}, true},
		// Links lead to what is edited; their own names count, too.
		{"repo", "link/a.go", []string{"files:/repo/src/a.go", "repo/.git:/src/a.go"}, false},
		{"repo", "link/new.go", []string{"files:/repo/src/new.go", "repo/.git:/src/new.go"}, false},
		{"repo", "a-link", []string{"files:/repo/a-link", "files:/repo/src/a.go", "repo/.git:/a-link", "repo/.git:/src/a.go"}, false},
		{"repo", "gone", []string{"files:/plain/nothing", "files:/repo/gone", "repo/.git:/gone"}, false},
		{"repo", "src/a.go/below", []string{"files:/repo/src/a.go/below", "repo/.git:/src/a.go/below"}, false},
		{"repo", "src/a.go/", []string{"files:/repo/src/a.go", "repo/.git:/src/a.go"}, false},
		{"repo", "sub/b.go", []string{"files:/repo/sub/b.go", "repo/sub/.git:/b.go"}, false},
		{"repo", "name:db", []string{"names:db"}, false},
	} {
		got, err := place.Paths(filepath.Join(tr.top, tt.folder), []string{tt.path})
		if err != nil {
			t.Errorf("%s in %s: %v", tt.path, tt.folder, err)
			continue
		}
		if at := tr.at(got[0]); !slices.Equal(at, tt.want) || got[0].Folder != tt.isFolder {
			t.Errorf("%s in %s is at %v (folder: %v), want %v (%v)", tt.path, tt.folder, at, got[0].Folder, tt.want, tt.isFolder)
		}
	}
}

func TestPatterns(t *testing.T) {
	tr := newTree(t)
	for _, tt := range []struct {
		folder, pattern string
		want            []string
		files           bool
	}{
		{"plain", "*.go", []string{"files:/plain/**/*.go"}, true},
		{"repo", "*.go", []string{"files:/repo/**/*.go", "repo/.git:/**/*.go"}, true},
		{"second/src", "/*.go", []string{"files:/second/src/*.go", "repo/.git:/src/*.go"}, true},
		{"repo", "./src/a.go", []string{"files:/repo/src/a.go", "repo/.git:/src/a.go"}, true},
		{"repo", "src/", []string{"files:/repo/**/src/", "files:/repo/src", "repo/.git:/**/src/", "repo/.git:/src"}, false},
		{"repo", "src/deep", []string{"files:/repo/src/deep", "repo/.git:/src/deep"}, false},
		{"repo", "link/*.go", []string{"files:/repo/link/*.go", "files:/repo/src/*.go", "repo/.git:/link/*.go", "repo/.git:/src/*.go"}, true},
		{"repo", "sub/*.go", []string{"files:/repo/sub/*.go", "repo/.git:/sub/*.go", "repo/sub/.git:/*.go"}, true},
		{"repo", "/[id].tsx", []string{"files:/repo/[id].tsx", `files:/repo/\[id\].tsx`, "repo/.git:/[id].tsx", `repo/.git:/\[id\].tsx`}, true},
		{"repo", ".", []string{"files:/repo/**", "repo/.git:/**"}, false},
		{"repo", "name:db", []string{"names:db"}, false},
	} {
		got, err := place.Patterns(filepath.Join(tr.top, tt.folder), []string{tt.pattern})
		if err != nil {
			t.Errorf("%s in %s: %v", tt.pattern, tt.folder, err)
			continue
		}
		if at := tr.at(got[0]); !slices.Equal(at, tt.want) || got[0].Files != tt.files {
			t.Errorf("%s in %s is at %v (files: %v), want %v (%v)", tt.pattern, tt.folder, at, got[0].Files, tt.want, tt.files)
		}
	}
	for pattern, want := range map[string]string{
		tr.top + "/repo/src/a.go": "write ./src/a.go",
		tr.top + "/repo":          "write .",
		"/etc/passwd":             "in which there is no etc",
		"../plain/x":              `has a part ".."`,
		"name:":                   "has no name",
	} {
		if _, err := place.Patterns(filepath.Join(tr.top, "repo"), []string{pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
	if _, err := place.Paths("repo", []string{"a"}); err == nil {
		t.Error("a folder that is no absolute path was taken")
	}
}

// TestLoops: links that lead nowhere end in an error or a path, and never in a hang.
func TestLoops(t *testing.T) {
	dir := t.TempDir()
	for link, to := range map[string]string{"a": "b", "b": "a", "self": "self/x"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"a", "b/c", "self", "self/y"} {
		if _, err := place.Paths(dir, []string{path}); err == nil || !strings.Contains(err.Error(), "cannot be found out") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOrigin(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/acme/api.git":                  "github.com/acme/api",
		"https://GitHub.com/acme/api/":                     "github.com/acme/api",
		"https://maria:secret@github.com:443/acme/api.git": "github.com/acme/api",
		"git@github.com:acme/api.git":                      "github.com/acme/api",
		"github.com:acme/api":                              "github.com/acme/api",
		"ssh://git@example.org:2222/~maria/api.git/":       "example.org/~maria/api",
		"git+ssh://git@example.org/acme/API":               "example.org/acme/API",
		"https://example.org/acme/api?token=secret":        "example.org/acme/api",
		"https://[2001:db8::1]:8443/api.git":               "2001:db8::1/api",
		"/srv/git/api.git":                                 "",
		"../api":                                           "",
		"file:///srv/git/api.git":                          "",
		`C:\git\api`:                                       "",
		"C:/git/api":                                       "",
		"https://example.org/":                             "",
		"https://%zz/":                                     "",
		"":                                                 "",
	} {
		if got := place.Origin(remote); got != want {
			t.Errorf("%s is %q, want %q", remote, got, want)
		}
	}
}

// A file is known by where its repository was cloned from, too: in each clone and worktree.
func TestPlacesByOrigin(t *testing.T) {
	tr := newTree(t)
	tr.git("repo", "remote", "add", "backup", "https://example.org/backup.git")
	tr.git("repo", "remote", "add", "origin", "https://maria:secret@example.org/acme/api.git")
	for _, folder := range []string{"repo", "second"} {
		got, err := place.Paths(filepath.Join(tr.top, folder), []string{"src/a.go", "a-link"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"files:/" + folder + "/src/a.go", "origin:example.org/acme/api:/src/a.go", "repo/.git:/src/a.go"}
		if at := tr.at(got[0]); !slices.Equal(at, want) {
			t.Errorf("in %s: %v, want %v", folder, at, want)
		}
	}
	got, err := place.Patterns(filepath.Join(tr.top, "repo"), []string{"link/*.go"})
	if err != nil || len(got[0].At) != 6 {
		t.Errorf("a pattern below a link: %v, %v", got, err)
	}
}
