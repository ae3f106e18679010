package connect_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/connect"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunInMemory(m)) }

func place(home string) connect.Place {
	return connect.Place{Home: home, Getenv: func(string) string { return "" }, Dibs: "dibs", Skill: []byte("---\nname: dibs\n---\n")}
}

// do plans and applies, and returns the changes.
func do(t testing.TB, client string, p connect.Place, undo bool) []string {
	t.Helper()
	changes, err := connect.Plan(client, p, undo)
	if err == nil {
		err = connect.Apply(changes)
	}
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, c := range changes {
		paths = append(paths, filepath.Base(c.Path))
	}
	return paths
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// tree returns all files below a directory with their contents.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(t testing.TB, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// In an empty home directory each client gets its files, once, and undo removes them.
func TestConnectAndUndo(t *testing.T) {
	for client, want := range map[string][]string{
		"claude": {".claude.json", ".claude/settings.json", ".claude/skills/dibs/SKILL.md"},
		"codex":  {".codex/config.toml", ".agents/skills/dibs/SKILL.md"},
		"cursor": {".cursor/mcp.json", ".cursor/hooks.json", ".cursor/skills/dibs/SKILL.md"},
	} {
		t.Run(client, func(t *testing.T) {
			home := t.TempDir()
			do(t, client, place(home), false)
			files := tree(t, home)
			for _, name := range want {
				text, ok := files[name]
				if !ok {
					t.Errorf("there is no %s", name)
				}
				if strings.HasSuffix(name, ".json") {
					parse(t, text)
				}
			}
			if len(files) != len(want) {
				t.Errorf("there is %v", maps.Keys(files))
			}
			if again := do(t, client, place(home), false); again != nil {
				t.Errorf("the second time %v changed", again)
			}
			do(t, client, place(home), true)
			if left := tree(t, home); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if again := do(t, client, place(home), true); again != nil {
				t.Errorf("taken out twice: %v", again)
			}
		})
	}
}

// Existing content stays byte for byte, including comments and odd spaces.
func TestWhatIsThereStays(t *testing.T) {
	home := t.TempDir()
	there := map[string]string{
		".claude.json": "{\"numStartups\":7,\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\":\"x\"} } }\n",
		".claude/settings.json": `{
    "model": "opus", // the big one
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PostToolUse": []
    },
}
`,
		".codex/config.toml": "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"\n",
		".cursor/mcp.json":   "{}",
		".cursor/hooks.json": `{"version": 1, "hooks": {"stop": [{"command": "./say.sh"}]}}`,
	}
	for name, text := range there {
		put(t, filepath.Join(home, name), text)
	}
	for _, client := range []string{"claude", "codex", "cursor"} {
		do(t, client, place(home), false)
	}
	after := tree(t, home)
	servers := parse(t, after[".claude.json"])["mcpServers"].(map[string]any)
	want := map[string]any{"other": map[string]any{"command": "x"}, "dibs": map[string]any{"type": "stdio", "command": "dibs", "args": []any{"mcp"}}}
	if diff := cmp.Diff(want, servers); diff != "" {
		t.Errorf("Claude Code's servers (-want +got):\n%s", diff)
	}
	for _, keep := range []string{`"model": "opus", // the big one`, `[{"hooks": [{"type": "command", "command": "say done"}]}`, `"PostToolUse": []`, `dibs hook Stop`, `dibs hook PreToolUse`} {
		if !strings.Contains(after[".claude/settings.json"], keep) {
			t.Errorf("no %s in:\n%s", keep, after[".claude/settings.json"])
		}
	}
	var config struct {
		Model   string
		Servers map[string]struct{ Command string } `toml:"mcp_servers"`
		Hooks   map[string][]struct {
			Matcher string
			Hooks   []struct{ Type, Command string }
		}
	}
	if err := toml.Unmarshal([]byte(after[".codex/config.toml"]), &config); err != nil {
		t.Fatal(err)
	}
	if config.Model != "x" || config.Servers["other"].Command != "y" || config.Servers["dibs"].Command != "dibs" ||
		config.Hooks["PreToolUse"][0].Hooks[0].Command != "dibs hook PreToolUse" || config.Hooks["PreToolUse"][0].Matcher != "apply_patch|Edit|Write" {
		t.Errorf("Codex: %+v", config)
	}
	for _, client := range []string{"claude", "codex", "cursor"} {
		do(t, client, place(home), true)
	}
	left := tree(t, home)
	if diff := cmp.Diff(there, left); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// Connecting and disconnecting leaves any settings unchanged, compared as JSON.
func TestAnySettings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		home, err := os.MkdirTemp("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		name := rapid.SampledFrom([]string{"a", "b", "mcpServers", "hooks"})
		leaf := rapid.OneOf(rapid.Just[any](map[string]any{}), rapid.Just[any]([]any{"x"}), rapid.Just[any]("y"), rapid.Just[any](nil))
		settings := map[string]any{"keep": "me"}
		for _, key := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "keys") {
			settings[key] = leaf.Draw(t, key)
			if key == "mcpServers" || key == "hooks" {
				settings[key] = map[string]any{"other": leaf.Draw(t, "in "+key)}
			}
		}
		text, _ := json.MarshalIndent(settings, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		path := filepath.Join(home, ".claude", "settings.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, filepath.Join(home, ".claude.json")} {
			if err := os.WriteFile(p, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, undo := range []bool{false, true} {
			changes, err := connect.Plan("claude", place(home), undo)
			if err != nil {
				t.Fatal(err)
			}
			if err := connect.Apply(changes); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []string{path, filepath.Join(home, ".claude.json")} {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			var want any
			json.Unmarshal(text, &want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s afterwards (-want +got):\n%s", p, diff)
			}
		}
	})
}

// Files that cannot be changed safely are left alone, and the error says what to do.
func TestLeftAlone(t *testing.T) {
	for _, c := range []struct{ client, path, text, want string }{
		{"claude", ".claude.json", "{", "not JSON"},
		{"claude", ".claude.json", "[]", "not a JSON object"},
		{"claude", ".claude.json", `{"mcpServers": []}`, `"mcpServers" in it is not an object`},
		{"claude", ".claude.json", `{"mcpServers": {"dibs": {"command": "other"}}}`, "another one"},
		{"claude", ".claude/settings.json", `{"hooks": {"Stop": 1}}`, "not a list"},
		{"codex", ".codex/config.toml", "= 1", "not TOML"},
		{"codex", ".codex/config.toml", "hooks = 1\n", "cannot be added"},
	} {
		home := t.TempDir()
		put(t, filepath.Join(home, c.path), c.text)
		_, err := connect.Plan(c.client, place(home), false)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// Settings are often links into a repository. They stay links, with the same mode.
func TestLinksStay(t *testing.T) {
	home, repo := t.TempDir(), t.TempDir()
	put(t, filepath.Join(repo, "settings.json"), "{}")
	if err := os.MkdirAll(filepath.Join(home, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(home, ".claude", "settings.json")
	if err := os.Symlink(filepath.Join(repo, "settings.json"), link); err != nil {
		t.Fatal(err)
	}
	do(t, "claude", place(home), false)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v: want a link", info, err)
	}
	if info, err = os.Stat(link); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v: want mode 0640", info, err)
	}
	if !strings.Contains(tree(t, repo)["settings.json"], "dibs hook Stop") {
		t.Error("the file behind the link has no hooks")
	}
}

// A file that is changed between Plan and Apply is not overwritten.
func TestChangedMeanwhile(t *testing.T) {
	home := t.TempDir()
	changes, err := connect.Plan("cursor", place(home), false)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(home, ".cursor", "mcp.json"), `{"mine": 1}`)
	if err := connect.Apply(changes); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("%v, want an error", err)
	}
	if got := tree(t, home)[".cursor/mcp.json"]; got != `{"mine": 1}` {
		t.Errorf("it is %s now", got)
	}
}

// The repository's hook runs our part first and then the rest, refuses what ours refuses, and
// passes without dibs.
func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	repo := t.TempDir()
	run := func(name string, args ...string) ([]byte, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		return cmd.CombinedOutput()
	}
	if out, err := run("git", "init", "-q"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := place(t.TempDir())
	p.Project = repo
	fake := filepath.Join(t.TempDir(), "dibs")
	p.Dibs = fake
	hook := filepath.Join(repo, ".git", "hooks", "pre-commit")
	before := "#!/bin/sh\necho mine\nexit 0\n"
	put(t, hook, before)
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, "git", p, false)
	for _, c := range []struct {
		script, out string
		refused     bool
	}{
		{"", "mine", false}, // without dibs
		{"#!/bin/sh\nexit 1\n", "mine", false},
		{"#!/bin/sh\necho no; exit 2\n", "no", true},
		{"#!/bin/sh\n[ \"$*\" = 'hook pre-commit' ]\n", "mine", false},
	} {
		if c.script != "" {
			put(t, fake, c.script)
			if err := os.Chmod(fake, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run(hook)
		if (err != nil) != c.refused || !bytes.Contains(out, []byte(c.out)) {
			t.Errorf("%q: %s, %v", c.script, out, err)
		}
	}
	do(t, "git", p, true)
	if got := tree(t, repo)[".git/hooks/pre-commit"]; got != before {
		t.Errorf("afterwards:\n%s", got)
	}
	for first, shell := range map[string]bool{
		"#!/usr/bin/env python3": false, "#!/usr/bin/env -S python3 -m bash": false, "#!/opt/sh/perl": false, "echo": false,
		"#! /bin/bash -e": true, "#!/usr/bin/env -S zsh -f": true, "#!/usr/bin/env sh\r": true,
	} {
		put(t, hook, first+"\n")
		if _, err := connect.Plan("git", p, false); shell != (err == nil) || err != nil && !strings.Contains(err.Error(), "not of a shell") {
			t.Errorf("%q: %v", first, err)
		}
	}
	p.Project = t.TempDir()
	if _, err := connect.Plan("git", p, false); err == nil || !strings.Contains(err.Error(), "repository") {
		t.Errorf("no repository: %v", err)
	}
}
