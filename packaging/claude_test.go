package packaging_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/testkit"
	"dibs/packaging"
)

// user has Claude Code and dibs, and a home directory of its own. The tests call no model and need
// no login.
type user struct {
	*testing.T
	home, client string
}

func claude(t *testing.T) user {
	t.Helper()
	clients := os.Getenv("TEST_CLIENTS")
	switch {
	case clients == "" && os.Getenv("CI") != "":
		t.Fatal("there is no Claude Code: set TEST_CLIENTS to the folder that .ci/mcp prints")
	case clients == "":
		t.Skip("there is no Claude Code: set TEST_CLIENTS to the folder that .ci/mcp prints")
	}
	u := user{t, t.TempDir(), filepath.Join(clients, "node_modules", ".bin", "claude")}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(u.home, "bin", "dibs"), "dibs/cmd/dibs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return u
}

func (u user) claude(args ...string) string {
	u.Helper()
	return u.run(u.client, args...)
}

func (u user) dibs(args ...string) string {
	u.Helper()
	return u.run(filepath.Join(u.home, "bin", "dibs"), args...)
}

func (u user) run(name string, args ...string) string {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), name, args...)
	cmd.Dir = u.home
	cmd.Env = []string{
		"HOME=" + u.home, "PATH=" + filepath.Join(u.home, "bin") + ":" + os.Getenv("PATH"),
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	out, err := cmd.CombinedOutput()
	testkit.Check(u, err == nil, "%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	return string(out)
}

// TestPluginForClaudeCode installs the plugin from a clone, and checks that its server answers.
func TestPluginForClaudeCode(t *testing.T) {
	testkit.SkipUnderRace(t)
	testkit.Long(t)
	u := claude(t)
	here := testkit.Got(os.Getwd())(t)
	u.claude("plugin", "validate", "--strict", here)
	u.claude("plugin", "validate", "--strict", filepath.Join(here, "claude-code"))
	u.claude("plugin", "marketplace", "add", here)
	u.claude("plugin", "install", "dibs@dibs")
	if out := u.claude("plugin", "list"); !strings.Contains(out, "dibs@dibs") || !strings.Contains(out, "enabled") {
		t.Errorf("it is not there:\n%s", out)
	}
	if out := u.claude("mcp", "list"); !strings.Contains(out, "dibs mcp") || !strings.Contains(out, "Connected") {
		t.Errorf("its server does not answer:\n%s", out)
	}
}

// Claude Code reads what dibs connect writes, until it is removed.
func TestConnectedClaudeCode(t *testing.T) {
	testkit.SkipUnderRace(t)
	testkit.Long(t)
	u := claude(t)
	u.dibs("connect", "claude")
	if out := u.claude("mcp", "list"); !strings.Contains(out, "dibs mcp") || !strings.Contains(out, "Connected") {
		t.Errorf("its server does not answer:\n%s", out)
	}
	u.dibs("connect", "claude", "--undo")
	if out := u.claude("mcp", "list"); strings.Contains(out, "dibs") {
		t.Errorf("it still knows dibs:\n%s", out)
	}
}

// The skill has the front matter that clients read, and is short.
func TestSkill(t *testing.T) {
	front, text, ok := bytes.Cut(bytes.TrimPrefix(packaging.Skill, []byte("---\n")), []byte("\n---\n"))
	if !ok || !bytes.HasPrefix(packaging.Skill, []byte("---\n")) {
		t.Fatal("it has no front matter")
	}
	for line := range strings.Lines(string(front)) {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok:
			t.Errorf("front matter %q", line)
		case name == "name" && strings.TrimSpace(value) != "dibs":
			t.Errorf("name %q", value)
		case name == "description" && len(value) > 1024: // what clients take
			t.Errorf("a description of %d characters", len(value))
		}
	}
	if n := bytes.Count(packaging.Skill, []byte("\n")); n >= 150 {
		t.Errorf("%d lines, want less than 150", n)
	}
	for _, want := range []string{"## The loop", "## Exit codes", "## What never to do"} {
		testkit.Check(t, bytes.Contains(text, []byte(want)), "no %q", want)
	}
}
