package connect_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dibs/internal/setup/connect"
	"dibs/internal/testkit"
)

// git runs git in a project's folder, without any user's settings.
func git(t testing.TB, p connect.Place, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", p.Project, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	testkit.Require(t, err == nil, "%v: %s", err, out)
}

// repository returns the place of an empty repository.
func repository(t testing.TB) connect.Place {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	p := project(t.TempDir())
	git(t, p, "init", "-q")
	return p
}

// Hooks outside of the repository may be shared with others: they are left alone.
func TestGitHooksElsewhere(t *testing.T) {
	for name, prepare := range map[string]func(p connect.Place, hooks string){
		"core.hooksPath": func(p connect.Place, hooks string) { git(t, p, "config", "core.hooksPath", hooks) },
		"core.hooksPath over a link": func(p connect.Place, hooks string) {
			link(t, hooks, filepath.Join(p.Project, "hooks"))
			git(t, p, "config", "core.hooksPath", "hooks")
		},
		"core.hooksPath of all projects": func(p connect.Place, hooks string) {
			put(t, hooks+".config", "[core]\n\thooksPath = "+hooks+"\n")
			t.Setenv("GIT_CONFIG_GLOBAL", hooks+".config")
		},
		"a link to a folder": func(p connect.Place, hooks string) {
			os.RemoveAll(filepath.Join(p.Project, ".git", "hooks"))
			link(t, hooks, filepath.Join(p.Project, ".git", "hooks"))
		},
		"a link to a hook": func(p connect.Place, hooks string) {
			link(t, filepath.Join(hooks, "pre-commit"), filepath.Join(p.Project, ".git", "hooks", "pre-commit"))
		},
		"a link to nothing": func(p connect.Place, hooks string) {
			link(t, filepath.Join(hooks, "none"), filepath.Join(p.Project, ".git", "hooks", "pre-commit"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, hooks := repository(t), filepath.Join(t.TempDir(), "hooks")
			hook := filepath.Join(hooks, "pre-commit")
			put(t, hook, "#!/bin/sh\n")
			testkit.Must(t, os.Chmod(hook, 0o755))
			prepare(p, hooks)
			refused(t, "git", p, "pre-commit", p.Project)
			testkit.Same(t, map[string]string{"pre-commit": "#!/bin/sh\n"}, tree(t, hooks), "it was changed")
		})
	}
}

// Hooks inside the repository are its own, at any path and from each of its work trees.
func TestGitHooksInside(t *testing.T) {
	p := repository(t)
	git(t, p, "commit", "-q", "--allow-empty", "-m", "first")
	git(t, p, "worktree", "add", "-q", filepath.Join(p.Project, "..", filepath.Base(p.Project)+"-tree"))
	tree := project(p.Project + "-tree")
	t.Cleanup(func() { os.RemoveAll(tree.Project) })
	below := project(filepath.Join(p.Project, "below"))
	testkit.Must(t, os.Mkdir(below.Project, 0o755))
	there := func(path string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(p.Project, path))
		testkit.Check(t, err == nil && strings.Contains(string(text), "dibs hook pre-commit"), "%s: %s, %v", path, text, err)
	}
	for _, from := range []connect.Place{p, tree, below} {
		do(t, "git", from, false)
		there(".git/hooks/pre-commit")
		do(t, "git", from, true)
	}
	git(t, p, "config", "core.hooksPath", ".husky")
	for _, from := range []connect.Place{p, below} {
		do(t, "git", from, false)
		there(".husky/pre-commit")
		do(t, "git", from, true)
	}
	git(t, p, "config", "--unset", "core.hooksPath")
	link(t, "../../scripts/check", filepath.Join(p.Project, ".git", "hooks", "pre-commit"))
	put(t, filepath.Join(p.Project, "scripts", "check"), "#!/bin/sh\n")
	testkit.Must(t, os.Chmod(filepath.Join(p.Project, "scripts", "check"), 0o755))
	do(t, "git", p, false)
	there("scripts/check")
}

// A hook that is not a file is refused at once.
func TestGitHookThatIsNoFile(t *testing.T) {
	p := repository(t)
	hooks := filepath.Join(p.Project, ".git", "hooks")
	testkit.Must(t, os.MkdirAll(hooks, 0o755))
	testkit.Must(t, syscall.Mkfifo(filepath.Join(hooks, "pre-commit"), 0o755))
	refused(t, "git", p, "pre-commit is not a file")
}
