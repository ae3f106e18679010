package connect_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/setup/connect"

	"github.com/google/go-cmp/cmp"
)

// project returns the place of a project.
func project(dir string) connect.Place {
	p := place("/nowhere")
	p.Project = dir
	return p
}

func link(t testing.TB, to, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// refused plans both ways and expects the words of want in both errors, without hanging.
func refused(t testing.TB, client string, p connect.Place, want ...string) {
	t.Helper()
	for _, undo := range []bool{false, true} {
		ended := make(chan error, 1)
		go func() {
			changes, err := connect.Plan(client, p, undo)
			if err == nil {
				err = connect.Apply(changes)
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("undo %v: %v, want an error of one line", undo, err)
				continue
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("undo %v: %v, want %q in it", undo, err, w)
				}
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("undo %v: it does not come to an end", undo)
		}
	}
}

// Nothing outside of the project is written or removed, even if a file or a folder is a link,
// broken or not.
func TestProjectIsNotLeft(t *testing.T) {
	for client, names := range map[string][]string{
		"claude": {".mcp.json", ".claude", ".claude/settings.json", ".claude/skills", ".claude/skills/dibs", ".claude/skills/dibs/SKILL.md"},
		"codex":  {".codex", ".codex/config.toml", ".agents", ".agents/skills/dibs/SKILL.md"},
		"cursor": {".cursor", ".cursor/mcp.json", ".cursor/hooks.json", ".cursor/skills/dibs/SKILL.md"},
	} {
		for _, name := range names {
			for _, there := range []string{"theirs", "ours", "nothing"} {
				t.Run(client+"/"+name+"/"+there, func(t *testing.T) {
					dir, home := filepath.Join(t.TempDir(), "a", "project"), t.TempDir()
					other := filepath.Join(home, "other")
					isFile := filepath.Ext(name) != "" && strings.Count(name, ".") > strings.Count(name, "/.")+1 || name == ".mcp.json" || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".toml")
					switch {
					case there == "nothing":
					case there == "ours": // connected by somebody else
						do(t, client, project(home), false)
						other = filepath.Join(home, name)
					case isFile:
						put(t, other, "{}")
					default:
						put(t, filepath.Join(other, "settings.json"), "{}")
					}
					before := tree(t, home)
					link(t, other, filepath.Join(dir, name))
					refused(t, client, project(dir), name, "leads out of", home, "in the place of the link")
					if diff := cmp.Diff(before, tree(t, home)); diff != "" {
						t.Errorf("what it leads to was changed (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// A relative link is resolved like the system does: from the folder in which it really is.
func TestRelativeLinkOut(t *testing.T) {
	home := t.TempDir()
	put(t, filepath.Join(home, ".bashrc"), "mine")
	dir := filepath.Join(home, "src", "project")
	link(t, "../../../../../.bashrc", filepath.Join(dir, ".claude", "skills", "dibs", "SKILL.md"))
	refused(t, "claude", project(dir), "SKILL.md leads out of", ".bashrc")
	// through a folder that is a link, the dots count from its target
	other := filepath.Join(home, "src", "other")
	put(t, filepath.Join(other, "x", "y"), "")
	link(t, "deep/er", filepath.Join(other, ".codex"))
	link(t, "../../../out.toml", filepath.Join(other, "deep", "er", "config.toml"))
	refused(t, "codex", project(other), "config.toml leads out of", "out.toml")
}

// Links within the project are followed, and so is a link to the project.
func TestLinksWithin(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "shared", "settings.json"), "{}")
	link(t, "../shared/settings.json", filepath.Join(dir, ".claude", "settings.json"))
	link(t, filepath.Join(dir, "shared", "mcp.json"), filepath.Join(dir, ".mcp.json")) // the target does not exist yet
	link(t, "../shared/skills", filepath.Join(dir, ".claude", "skills"))
	also := filepath.Join(t.TempDir(), "link")
	link(t, dir, also)
	do(t, "claude", project(also), false)
	if got := tree(t, filepath.Join(dir, "shared")); !strings.Contains(got["settings.json"], "dibs hook") || !strings.Contains(got["mcp.json"], "dibs") || got["skills/dibs/SKILL.md"] == "" {
		t.Errorf("%v", got)
	}
	do(t, "claude", project(also), true)
	if got := tree(t, filepath.Join(dir, "shared")); len(got) != 1 || got["settings.json"] != "{}" {
		t.Errorf("afterwards: %v", got)
	}
}

// A folder that becomes a link between Plan and Apply leads nowhere either.
func TestLinkMeanwhile(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	p := project(dir)
	for _, undo := range []bool{false, true} {
		changes, err := connect.Plan("claude", p, undo)
		if err != nil || len(changes) == 0 {
			t.Fatalf("%v, %v", changes, err)
		}
		if undo { // the same files, elsewhere
			do(t, "claude", project(home), false)
		}
		before := tree(t, home)
		if err := errorsOf(os.RemoveAll(filepath.Join(dir, ".claude")), os.RemoveAll(filepath.Join(dir, ".mcp.json"))); err != nil {
			t.Fatal(err)
		}
		link(t, filepath.Join(home, ".claude"), filepath.Join(dir, ".claude"))
		link(t, filepath.Join(home, ".mcp.json"), filepath.Join(dir, ".mcp.json"))
		for _, c := range changes {
			if err := connect.Apply([]connect.Change{c}); err == nil {
				t.Errorf("undo %v: %s was changed", undo, c.Path)
			}
		}
		if diff := cmp.Diff(before, tree(t, home)); diff != "" {
			t.Errorf("undo %v: what the links lead to was changed (-want +got):\n%s", undo, diff)
		}
		if err := errorsOf(os.Remove(filepath.Join(dir, ".claude")), os.Remove(filepath.Join(dir, ".mcp.json"))); err != nil {
			t.Fatal(err)
		}
		do(t, "claude", p, false)
	}
}

func errorsOf(errs ...error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// Anything but a file is refused at once, and so is a circle of links.
func TestNoFile(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"is not a file":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"move it away":     func(path string) error { return os.Mkdir(path, 0o700) },
		"lead in a circle": func(path string) error { return os.Symlink(path, path) },
		// never use a device of this machine: failing code would replace it
		"pipe is not a file": func(path string) error {
			pipe := filepath.Join(t.TempDir(), "pipe")
			return errorsOf(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, path))
		},
	} {
		for client, name := range map[string]string{"claude": ".claude/settings.json", "codex": ".codex/config.toml", "cursor": ".cursor/skills/dibs/SKILL.md"} {
			home := t.TempDir()
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			refused(t, client, place(home), what)
		}
	}
	home := t.TempDir()
	put(t, filepath.Join(home, ".claude"), "a file")
	refused(t, "claude", place(home), ".claude/settings.json", "a part of its path is a file")
}

// Planning alone changes nothing.
func TestPlanChangesNothing(t *testing.T) {
	home := t.TempDir()
	for _, client := range []string{"claude", "codex", "cursor"} {
		for _, undo := range []bool{false, true} {
			if _, err := connect.Plan(client, place(home), undo); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if path != home {
			t.Errorf("there is %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
