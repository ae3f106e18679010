package connect_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dibs/internal/setup/connect"
)

// Our part is found whatever an editor did to the line ends.
func TestEndsOfLines(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"windows":      func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"no last line": func(s string) string { return strings.TrimRight(s, "\n") },
	} {
		home := t.TempDir()
		config := filepath.Join(home, ".codex", "config.toml")
		put(t, config, "model = \"x\"\n")
		do(t, "codex", place(home), false)
		put(t, config, edit(tree(t, home)[".codex/config.toml"]))
		if again := do(t, "codex", place(home), false); again != nil {
			t.Errorf("%s: connected twice: %v:\n%s", name, again, tree(t, home)[".codex/config.toml"])
		}
		do(t, "codex", place(home), true)
		if got := tree(t, home)[".codex/config.toml"]; strings.TrimRight(got, "\r\n") != `model = "x"` {
			t.Errorf("%s: left:\n%s", name, got)
		}
	}
}

// Codex adds its own tables after the last one, which is between our lines. They stay.
func TestCodexWritesBetweenOurLines(t *testing.T) {
	home := t.TempDir()
	config := filepath.Join(home, ".codex", "config.toml")
	do(t, "codex", place(home), false)
	const theirs = "\n[projects.\"/src\"]\ntrust_level = \"trusted\"\n\n[hooks.state.\"x:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n"
	text := tree(t, home)[".codex/config.toml"]
	put(t, config, strings.Replace(text, "# <<< dibs", theirs+"# <<< dibs", 1))
	if again := do(t, "codex", place(home), false); again != nil {
		t.Errorf("connected again, %v changed", again)
	}
	moved := place(home)
	moved.Dibs = "/opt/dibs"
	do(t, "codex", moved, false)
	if got := tree(t, home)[".codex/config.toml"]; !strings.Contains(got, strings.TrimSpace(theirs)) || !strings.Contains(got, "/opt/dibs hook Stop") || strings.Contains(got, `"dibs hook`) {
		t.Errorf("connected by another path:\n%s", got)
	}
	do(t, "codex", moved, true)
	if got := tree(t, home)[".codex/config.toml"]; strings.TrimSpace(got) != strings.TrimSpace(theirs) {
		t.Errorf("afterwards:\n%s", got)
	}
}

// A person's additions to our part are kept, and removed with it.
func TestFlagsOfTheUser(t *testing.T) {
	home := t.TempDir()
	do(t, "claude", place(home), false)
	for name, was := range tree(t, home) {
		text := strings.ReplaceAll(was, "hook Stop\"", "hook Stop --socket /run/s\"")
		text = strings.Replace(text, `"mcp"`, `"mcp", "--agent", "Sandman"`, 1)
		put(t, filepath.Join(home, name), text)
	}
	if again := do(t, "claude", place(home), false); again != nil {
		t.Errorf("connected again, %v changed", again)
	}
	do(t, "claude", place(home), true)
	if left := tree(t, home); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A link to a missing file stays a link: the file is made at its target.
func TestLinkToNothing(t *testing.T) {
	home, repo := t.TempDir(), t.TempDir()
	link := filepath.Join(home, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repo, "settings.json"), link); err != nil {
		t.Fatal(err)
	}
	do(t, "claude", place(home), false)
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v: want a link", info, err)
	}
	if !strings.Contains(tree(t, repo)["settings.json"], "dibs hook Stop") {
		t.Error("the file behind the link has no hooks")
	}
}

// A read-only file is not replaced.
func TestReadOnly(t *testing.T) {
	home := t.TempDir()
	settings := filepath.Join(home, ".claude", "settings.json")
	put(t, settings, "{}")
	if err := os.Chmod(settings, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := connect.Plan("claude", place(home), false); err == nil || !strings.Contains(err.Error(), settings+": it is read-only") {
		t.Errorf("%v", err)
	}
}

// A hook that git would not run is refused.
func TestHookThatGitIgnores(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil || runtime.GOOS == "windows" {
		t.Skip("there is no git here, or no bit that makes a file executable")
	}
	p := place(t.TempDir())
	p.Project = t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", p.Project}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	git("init", "-q")
	hook := filepath.Join(p.Project, ".git", "hooks", "pre-commit")
	put(t, hook, "#!/bin/sh\n")
	if _, err := connect.Plan("git", p, false); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("%v", err)
	}
	git("config", "core.hooksPath", os.DevNull)
	if _, err := connect.Plan("git", p, false); err == nil || !strings.Contains(err.Error(), filepath.Join(os.DevNull, "pre-commit")) {
		t.Errorf("no hooks at all: %v", err)
	}
}
