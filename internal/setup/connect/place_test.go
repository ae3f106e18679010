package connect_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/connect"
	"dibs/internal/testkit"
)

const skillPath = ".claude/skills/dibs/SKILL.md"

// A skill of that name that we did not write is refused before anything is written, and stays.
func TestAnotherSkill(t *testing.T) {
	for client, path := range map[string]string{"claude": skillPath, "codex": ".agents/skills/dibs/SKILL.md", "cursor": ".cursor/skills/dibs/SKILL.md"} {
		for _, text := range []string{"---\nname: dibs\n---\nMy own.\n", ""} {
			home := t.TempDir()
			put(t, filepath.Join(home, path), text)
			testkit.Refused(connect.Plan(client, place(home), false))(t, path, "another one")
			do(t, client, place(home), true)
			testkit.Same(t, map[string]string{path: text}, tree(t, home), "%s afterwards", client)
		}
	}
}

// A skill that another version wrote is replaced, and removed.
func TestSkillOfAnOlderDibs(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"as it was":    func(s string) string { return s },
		"windows":      func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"no last line": func(s string) string { return strings.TrimSuffix(s, "\n") },
	} {
		home := t.TempDir()
		older := place(home)
		older.Skill = []byte("---\nname: dibs\n---\nOlder.\n")
		do(t, "claude", older, false)
		put(t, filepath.Join(home, skillPath), edit(tree(t, home)[skillPath]))
		changed := do(t, "claude", place(home), false)
		testkit.Check(t, len(changed) == 1 && changed[0] == "SKILL.md", "%s: changed %v", name, changed)
		if got := tree(t, home)[skillPath]; strings.Contains(got, "Older") || !strings.HasPrefix(got, string(place(home).Skill)) {
			t.Errorf("%s: it is\n%s", name, got)
		}
		do(t, "claude", older, false)
		do(t, "claude", place(home), true)
		left := tree(t, home)
		testkit.Check(t, len(left) == 0, "%s: left %v", name, left)
	}
}

// Skills as dibs skill prints them, and those from before they were signed, are ours.
func TestSkillWithoutSignature(t *testing.T) {
	first := testkit.Got(os.ReadFile("testdata/first-skill.md"))(t)
	for _, text := range []string{string(first), string(place("").Skill)} {
		home := t.TempDir()
		put(t, filepath.Join(home, skillPath), text)
		do(t, "claude", place(home), false)
		do(t, "claude", place(home), true)
		left := tree(t, home)
		testkit.Check(t, len(left) == 0, "left %v", left)
	}
}

// A skill that its user changed is kept, with a message, by every version.
func TestChangedSkill(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"before": func(s string) string { return strings.Replace(s, "name: dibs", "name: dibs\nmine: 1", 1) },
		"behind": func(s string) string { return s + "Mine.\n" },
	} {
		home := t.TempDir()
		do(t, "claude", place(home), false)
		text := edit(tree(t, home)[skillPath])
		put(t, filepath.Join(home, skillPath), text)
		newer := place(home)
		newer.Skill = []byte("---\nname: dibs\n---\nNewer.\n")
		for _, p := range []connect.Place{place(home), newer} {
			for _, undo := range []bool{false, true} {
				changes := testkit.Got(connect.Plan("claude", p, undo))(t)
				if c := changes[len(changes)-1]; filepath.Base(c.Path) != "SKILL.md" || !strings.Contains(c.Kept, "was changed since dibs wrote it") {
					t.Errorf("%s, undo %v: %+v", name, undo, c)
				}
				do(t, "claude", p, undo)
				got := tree(t, home)[skillPath]
				testkit.Check(t, got == text, "%s, undo %v: it is\n%s", name, undo, got)
			}
		}
	}
}

// A program is recognized by its name with a version at the end, by being this one, or by its build
// information. Calls are updated to the current path of dibs, with their additions.
func TestCalledOtherwise(t *testing.T) {
	self := testkit.Got(os.Executable())(t)
	copied := filepath.Join(t.TempDir(), "mesh tool")
	from := testkit.Got(os.Open(self))(t)
	defer from.Close()
	to := testkit.Got(os.OpenFile(copied, os.O_CREATE|os.O_WRONLY, 0o755))(t)
	testkit.Got(io.Copy(to, from))(t)
	to.Close()
	for _, program := range []string{"/opt/dibs-1.2", "/opt/it's/dibs_linux", `C:\bin\dibs.exe`, copied} {
		for _, client := range []string{"claude", "codex", "cursor"} {
			home := t.TempDir()
			p := place(home)
			p.Dibs = program
			do(t, client, p, false)
			again := do(t, client, p, false)
			testkit.Check(t, again == nil, "%s, %s: connected twice: %v", client, program, again)
			for name, was := range tree(t, home) {
				text := strings.Replace(was, `"mcp"`, `"mcp", "--agent", "Sandman"`, 1)
				for _, stop := range []string{"hook Stop", "hook stop"} {
					text = strings.Replace(text, stop, stop+" --socket /run/s", 1)
				}
				put(t, filepath.Join(home, name), text)
			}
			if again := do(t, client, p, false); again != nil {
				t.Errorf("%s, %s: connected again: %v", client, program, again)
			}
			do(t, client, place(home), false)
			var all strings.Builder
			for _, text := range tree(t, home) {
				all.WriteString(text)
			}
			if text := all.String(); strings.Contains(text, program[strings.LastIndexAny(program, `/\`)+1:]) || !strings.Contains(text, "Sandman") ||
				!strings.Contains(strings.ToLower(text), `"dibs hook stop --socket /run/s"`) {
				t.Errorf("%s: moved from %s:\n%s", client, program, text)
			}
			do(t, client, p, false)
			do(t, client, place(home), true)
			left := tree(t, home)
			testkit.Check(t, len(left) == 0, "%s, %s: left %v", client, program, left)
		}
	}
}

// Entries that only look like ours stay, on undo as well.
func TestOthersPrograms(t *testing.T) {
	home := t.TempDir()
	text := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "lefthook hook Stop"}]}, {"hooks": [{"type": "command", "command": "dibsy hook Stop"}]}]}}`
	put(t, filepath.Join(home, ".claude/settings.json"), text)
	do(t, "claude", place(home), false)
	do(t, "claude", place(home), true)
	got := tree(t, home)[".claude/settings.json"]
	testkit.Check(t, got == text, "it is %s", got)
	for client, c := range map[string]struct{ path, text string }{
		"claude": {".claude.json", `{"mcpServers": {"dibs": {"command": "/opt/other", "args": ["mcp"]}}}`},
		"cursor": {".cursor/mcp.json", `{"mcpServers": {"dibs": {"url": "https://example.com"}}}`},
		"codex":  {".codex/config.toml", "[mcp_servers.dibs]\ncommand = \"other\"\n"},
	} {
		home := t.TempDir()
		put(t, filepath.Join(home, c.path), c.text)
		_, err := connect.Plan(client, place(home), false)
		testkit.Check(t, err != nil && strings.Contains(err.Error(), "another one"), "%s: %v", client, err)
		do(t, client, place(home), true)
		got := tree(t, home)[c.path]
		testkit.Check(t, got == c.text, "%s: it is %s", client, got)
	}
}

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
		got := tree(t, home)[".codex/config.toml"]
		testkit.Check(t, strings.TrimRight(got, "\r\n") == `model = "x"`, "%s: left:\n%s", name, got)
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
	again := do(t, "codex", place(home), false)
	testkit.Check(t, again == nil, "connected again, %v changed", again)
	moved := place(home)
	moved.Dibs = "/opt/dibs"
	do(t, "codex", moved, false)
	if got := tree(t, home)[".codex/config.toml"]; !strings.Contains(got, strings.TrimSpace(theirs)) || !strings.Contains(got, "/opt/dibs hook Stop") || strings.Contains(got, `"dibs hook`) {
		t.Errorf("connected by another path:\n%s", got)
	}
	do(t, "codex", moved, true)
	got := tree(t, home)[".codex/config.toml"]
	testkit.Check(t, strings.TrimSpace(got) == strings.TrimSpace(theirs), "afterwards:\n%s", got)
}

// A read-only file is not replaced.
func TestReadOnly(t *testing.T) {
	home := t.TempDir()
	settings := filepath.Join(home, ".claude", "settings.json")
	put(t, settings, "{}")
	testkit.Must(t, os.Chmod(settings, 0o444))
	testkit.Refused(connect.Plan("claude", place(home), false))(t, settings+": it is read-only")
}

// A hook that git would not run is refused.
func TestHookThatGitIgnores(t *testing.T) {
	p := repository(t)
	put(t, filepath.Join(p.Project, ".git", "hooks", "pre-commit"), "#!/bin/sh\n")
	_, err := connect.Plan("git", p, false)
	testkit.Says(t, "the error", fmt.Sprint(err), "not executable")
	git(t, p, "config", "core.hooksPath", os.DevNull)
	_, err = connect.Plan("git", p, false)
	testkit.Says(t, "the error", fmt.Sprint(err), filepath.Join(os.DevNull, "pre-commit"))
}
