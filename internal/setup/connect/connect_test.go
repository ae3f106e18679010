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
	"syscall"
	"testing"

	"dibs/internal/setup/connect"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
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
	testkit.Must(t, err)
	var paths []string
	for _, c := range changes {
		paths = append(paths, filepath.Base(c.Path))
	}
	return paths
}

// unchanged connects or undoes, and nothing is to change.
func unchanged(t testing.TB, client string, p connect.Place, undo bool) {
	t.Helper()
	again := do(t, client, p, undo)
	testkit.Check(t, again == nil, "%s, undo %v: %v changed", client, undo, again)
}

func put(t testing.TB, path, text string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o640))
}

// tree returns all files below a directory with their contents.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	}))
	return files
}

func parse(t testing.TB, text string) (v map[string]any) {
	t.Helper()
	err := json.Unmarshal([]byte(text), &v)
	testkit.Require(t, err == nil, "%v in %s", err, text)
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
				testkit.Check(t, ok, "there is no %s", name)
				if strings.HasSuffix(name, ".json") {
					parse(t, text)
				}
			}
			testkit.Check(t, len(files) == len(want), "there is %v", maps.Keys(files))
			unchanged(t, client, place(home), false)
			do(t, client, place(home), true)
			testkit.Same(t, map[string]string{}, tree(t, home), "left")
			unchanged(t, client, place(home), true)
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
	testkit.Same(t, want, servers, "Claude Code's servers")
	testkit.Says(t, "it", after[".claude/settings.json"], `"model": "opus", // the big one`, `[{"hooks": [{"type": "command", "command": "say done"}]}`, `"PostToolUse": []`, `dibs hook Stop`, `dibs hook PreToolUse`)
	var config struct {
		Model   string
		Servers map[string]struct{ Command string } `toml:"mcp_servers"`
		Hooks   map[string][]struct {
			Matcher string
			Hooks   []struct{ Type, Command string }
		}
	}
	testkit.Must(t, toml.Unmarshal([]byte(after[".codex/config.toml"]), &config))
	if config.Model != "x" || config.Servers["other"].Command != "y" || config.Servers["dibs"].Command != "dibs" ||
		config.Hooks["PreToolUse"][0].Hooks[0].Command != "dibs hook PreToolUse" || config.Hooks["PreToolUse"][0].Matcher != "apply_patch|Edit|Write" {
		t.Errorf("Codex: %+v", config)
	}
	for _, client := range []string{"claude", "codex", "cursor"} {
		do(t, client, place(home), true)
	}
	left := tree(t, home)
	testkit.Same(t, there, left, "afterwards")
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
		home := homeWith(t, c.path, c.text)
		testkit.Refused(connect.Plan(c.client, place(home), false))(t, c.want, c.path)
	}
}

// Settings are often links into a repository. They stay links, with the same mode, also to a file that is not there yet.
func TestLinksStay(t *testing.T) {
	for _, there := range []bool{true, false} {
		home, repo := t.TempDir(), t.TempDir()
		if there {
			put(t, filepath.Join(repo, "settings.json"), "{}")
		}
		path := filepath.Join(home, ".claude", "settings.json")
		link(t, filepath.Join(repo, "settings.json"), path)
		do(t, "claude", place(home), false)
		info := testkit.Got(os.Lstat(path))(t)
		testkit.Check(t, info.Mode()&fs.ModeSymlink != 0, "%v: want a link", info)
		info = testkit.Got(os.Stat(path))(t)
		testkit.Check(t, !there || info.Mode().Perm() == 0o640, "%v: want mode 0640", info)
		testkit.Says(t, "the file behind the link", tree(t, repo)["settings.json"], "dibs hook Stop")
	}
}

// The repository's hook runs our part first and then the rest, refuses what ours refuses, and passes without dibs.
func TestGit(t *testing.T) {
	for _, name := range []string{"pre-commit", "pre-push"} {
		t.Run(name, func(t *testing.T) { testGit(t, name) })
	}
	refused(t, "git", project(t.TempDir()), "repository")
}

func testGit(t *testing.T, name string) {
	p, fake := repository(t), filepath.Join(t.TempDir(), "dibs")
	repo := p.Project
	p.Dibs = fake
	hook := filepath.Join(repo, ".git", "hooks", name)
	before := "#!/bin/sh\necho mine\nexit 0\n"
	put(t, hook, before)
	testkit.Must(t, os.Chmod(hook, 0o755))
	do(t, "git", p, false)
	for _, c := range []struct {
		script, out string
		refused     bool
	}{
		{"", "mine", false}, // without dibs
		{"#!/bin/sh\nexit 1\n", "mine", false},
		{"#!/bin/sh\necho no; exit 2\n", "no", true},
		{"#!/bin/sh\n[ \"$*\" = 'hook " + name + "' ]\n", "mine", false},
	} {
		if c.script != "" {
			put(t, fake, c.script)
			testkit.Must(t, os.Chmod(fake, 0o755))
		}
		cmd := exec.Command(hook)
		cmd.Dir = repo
		out, err := cmd.CombinedOutput()
		testkit.Check(t, (err != nil) == c.refused && bytes.Contains(out, []byte(c.out)), "%q: %s, %v", c.script, out, err)
	}
	do(t, "git", p, true)
	got := tree(t, repo)[".git/hooks/"+name]
	testkit.Check(t, got == before, "afterwards:\n%s", got)
	for first, shell := range map[string]bool{
		"#!/usr/bin/env python3": false, "#!/usr/bin/env -S python3 -m bash": false, "#!/opt/sh/perl": false, "echo": false,
		"#! /bin/bash -e": true, "#!/usr/bin/env -S zsh -f": true, "#!/usr/bin/env sh\r": true,
	} {
		put(t, hook, first+"\n")
		_, err := connect.Plan("git", p, false)
		testkit.Check(t, shell == (err == nil) && (err == nil || strings.Contains(err.Error(), "not of a shell")), "%q: %v", first, err)
	}
}

// The server and the hooks ask the daemon that was named. Another one takes its place, and what a person added stays.
func TestNamedDaemon(t *testing.T) {
	named := func(home, socket string) connect.Place {
		p := place(home)
		p.Dibs, p.Flags = "/opt/bin/dibs", [][2]string{{"--config", "/etc/it's.yaml"}, {"--socket", socket}}
		return p
	}
	server := func(home, client string) (command string, args []any) {
		t.Helper()
		files := tree(t, home)
		var all map[string]any
		switch client {
		case "claude":
			all = parse(t, files[".claude.json"])["mcpServers"].(map[string]any)
		case "cursor":
			all = parse(t, files[".cursor/mcp.json"])["mcpServers"].(map[string]any)
		default:
			testkit.Must(t, toml.Unmarshal([]byte(files[".codex/config.toml"]), &all))
			all = all["mcp_servers"].(map[string]any)
		}
		it := all["dibs"].(map[string]any)
		return it["command"].(string), it["args"].([]any)
	}
	for _, client := range []string{"claude", "codex", "cursor"} {
		home := t.TempDir()
		do(t, client, named(home, "/a.sock"), false)
		command, args := server(home, client)
		diff := cmp.Diff([]any{"mcp", "--config", "/etc/it's.yaml", "--socket", "/a.sock"}, args)
		testkit.Check(t, command == "/opt/bin/dibs" && diff == "", "%s: %s (-want +got):\n%s", client, command, diff)
		unchanged(t, client, named(home, "/a.sock"), false)
		unchanged(t, client, func() connect.Place { p := named(home, ""); p.Flags = nil; return p }(), false)
		for name, was := range tree(t, home) {
			put(t, filepath.Join(home, name), strings.Replace(was, `"/a.sock"`, `"/a.sock", "--agent", "Sandman"`, 1))
		}
		part := named(home, "/a.sock")
		part.Flags = part.Flags[:1]
		unchanged(t, client, part, false)
		do(t, client, named(home, "/b.sock"), false)
		unchanged(t, client, named(home, "/b.sock"), false)
		_, args = server(home, client)
		testkit.Check(t, args[4] == "/b.sock" && args[6] == "Sandman", "%s: args %q", client, args)
		var all strings.Builder
		for _, text := range tree(t, home) {
			all.WriteString(text)
		}
		hook := `/opt/bin/dibs hook stop --config '/etc/it'\\''s.yaml' --socket /b.sock"`
		if text := all.String(); strings.Contains(text, "/a.sock") || !strings.Contains(strings.ToLower(text), hook) {
			t.Errorf("%s: it is\n%s", client, text)
		}
		do(t, client, named(home, "/c.sock"), true)
		testkit.Same(t, map[string]string{}, tree(t, home), "left")
	}
	// A server that a person gave Codex is not ours to edit: it says what is missing.
	home := homeWith(t, ".codex/config.toml", "[mcp_servers.dibs]\ncommand = \"/opt/bin/dibs\"\nargs = [\"mcp\"]\n")
	testkit.Refused(connect.Plan("codex", named(home, "/a.sock"), false))(t, `give it the args "mcp", "--config", "/etc/it's.yaml", "--socket", "/a.sock"`)
	// git
	p := repository(t)
	p.Flags = [][2]string{{"--socket", "/a.sock"}}
	do(t, "git", p, false)
	path := ".git/hooks/pre-commit"
	text := tree(t, p.Project)[path]
	testkit.Check(t, strings.Contains(text, "dibs hook pre-commit --socket /a.sock || "), "it is %s", text)
	p.Flags = nil
	unchanged(t, "git", p, false)
}

// Clients that are here are told from others, and connected ones, too.
func TestHere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", "")
	p := place(home)
	at := func(client string) connect.Standing {
		t.Helper()
		s, err := p.Standing(client)
		testkit.OK(t, err)
		return s
	}
	put(t, filepath.Join(home, ".claude/history.jsonl"), "")
	want := map[string]connect.Standing{"claude": {Here: true}, "codex": {}, "cursor": {}}
	for client, w := range want {
		got := at(client)
		testkit.Check(t, got == w, "%s: %+v, want %+v", client, got, w)
	}
	do(t, "claude", p, false)
	got := at("claude")
	testkit.Check(t, got == (connect.Standing{Here: true, Connected: true, Current: true}), "connected: %+v", got)
	p.Dibs = "/opt/dibs"
	got = at("claude")
	testkit.Check(t, got == (connect.Standing{Here: true, Connected: true}), "connected by another dibs: %+v", got)
	t.Setenv("PATH", home)
	put(t, filepath.Join(home, "codex"), "")
	testkit.Must(t, os.Chmod(filepath.Join(home, "codex"), 0o755))
	got = at("codex")
	testkit.Check(t, got.Here, "on the path: %+v", got)
}

// On macOS, Claude Code's sandbox is made to allow the daemon's socket, and nothing else.
func TestSandbox(t *testing.T) {
	const socket, name = "/Users/ada/Library/Application Support/dibs/dibs.sock", ".claude/settings.json"
	for before, want := range map[string]map[string]any{
		"":                               {"network": map[string]any{"allowUnixSockets": []any{socket}}},
		"{}":                             {"network": map[string]any{"allowUnixSockets": []any{socket}}},
		`{"sandbox": {"enabled": true}}`: {"enabled": true, "network": map[string]any{"allowUnixSockets": []any{socket}}},
		`{"sandbox": {"network": {}}}`:   {"network": map[string]any{"allowUnixSockets": []any{socket}}},
		`{"sandbox": {"network": {"allowUnixSockets": []}}}`:                                                                   {"network": map[string]any{"allowUnixSockets": []any{socket}}},
		`{"sandbox": {"network": {"allowUnixSockets": ["/a", /* b */ "/b"]}}}`:                                                 {"network": map[string]any{"allowUnixSockets": []any{"/a", "/b", socket}}},
		"{\n  \"sandbox\": {\n    \"network\": {\n      \"allowUnixSockets\": [\n        \"/a\",\n      ],\n    },\n  },\n}\n": {"network": map[string]any{"allowUnixSockets": []any{"/a", socket}}},
	} {
		home := t.TempDir()
		p := place(home)
		p.Socket = socket
		path := filepath.Join(home, name)
		put(t, path, before)
		testkit.Must(t, exact("claude", p, path, []byte(before)))
		do(t, "claude", p, false)
		plain := testkit.Got(hujson.Standardize([]byte(tree(t, home)[name])))(t)
		testkit.Same(t, any(want), parse(t, string(plain))["sandbox"], "%q", before)
		note := p.Sandbox("claude")
		testkit.Check(t, note == "", "nothing is missing, and it says %q", note)
	}
	// Elsewhere no client allows a single socket: nothing is written, and that is said.
	home := t.TempDir()
	p := place(home)
	for _, client := range []string{"claude", "codex", "cursor"} {
		do(t, client, p, false)
		note := p.Sandbox(client)
		testkit.Check(t, (note == "") == (client == "cursor"), "%s: it says %q", client, note)
	}
	for file, text := range tree(t, home) {
		for _, never := range []string{"allowAllUnixSockets", "allowUnixSockets", "excludedCommands", "network_access", "sandbox_mode", "unix_sockets", "prefix_rule"} {
			testkit.Check(t, !strings.Contains(text, never) || strings.HasSuffix(file, ".md"), "%s has %s", file, never)
		}
	}
	// What is no list is left alone.
	for _, odd := range []string{`{"sandbox": 1}`, `{"sandbox": {"network": []}}`, `{"sandbox": {"network": {"allowUnixSockets": "/a"}}}`} {
		p.Home, p.Socket = t.TempDir(), socket
		put(t, filepath.Join(p.Home, name), odd)
		refused(t, "claude", p)
	}
}

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

// homeWith returns a home directory with one file.
func homeWith(t testing.TB, path, text string) string {
	t.Helper()
	home := t.TempDir()
	put(t, filepath.Join(home, path), text)
	return home
}
