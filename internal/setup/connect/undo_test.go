package connect_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dibs/internal/setup/connect"
	"dibs/internal/testkit"

	"pgregory.net/rapid"
)

// project returns the place of a project.
func project(dir string) connect.Place {
	p := place("/nowhere")
	p.Project = dir
	return p
}

func link(t testing.TB, to, path string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.Symlink(to, path))
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
			testkit.Says(t, fmt.Sprint(undo, " ", err), err.Error(), want...)
		case <-time.After(20 * time.Second):
			t.Fatalf("undo %v: it does not come to an end", undo)
		}
	}
}

// Nothing outside of the project is written or removed, even if a file or a folder is a link, broken or not.
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
					testkit.Same(t, before, tree(t, home), "what it leads to was changed")
				})
			}
		}
	}
}

// A relative link is resolved like the system does: from the folder in which it really is.
func TestRelativeLinkOut(t *testing.T) {
	home := homeWith(t, ".bashrc", "mine")
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
	got := tree(t, filepath.Join(dir, "shared"))
	testkit.Check(t, len(got) == 1 && got["settings.json"] == "{}", "afterwards: %v", got)
}

// A folder that becomes a link between Plan and Apply leads nowhere either.
func TestLinkMeanwhile(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	p := project(dir)
	for _, undo := range []bool{false, true} {
		changes, err := connect.Plan("claude", p, undo)
		testkit.Require(t, err == nil && len(changes) != 0, "%v, %v", changes, err)
		if undo { // the same files, elsewhere
			do(t, "claude", project(home), false)
		}
		before := tree(t, home)
		testkit.Must(t, errorsOf(os.RemoveAll(filepath.Join(dir, ".claude")), os.RemoveAll(filepath.Join(dir, ".mcp.json"))))
		link(t, filepath.Join(home, ".claude"), filepath.Join(dir, ".claude"))
		link(t, filepath.Join(home, ".mcp.json"), filepath.Join(dir, ".mcp.json"))
		for _, c := range changes {
			err := connect.Apply([]connect.Change{c})
			testkit.Check(t, err != nil, "undo %v: %s was changed", undo, c.Path)
		}
		testkit.Same(t, before, tree(t, home), "undo %v: what the links lead to was changed", undo)
		testkit.Must(t, errorsOf(os.Remove(filepath.Join(dir, ".claude")), os.Remove(filepath.Join(dir, ".mcp.json"))))
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
			testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testkit.Must(t, make(path))
			refused(t, client, place(home), what)
		}
	}
	home := homeWith(t, ".claude", "a file")
	refused(t, "claude", place(home), ".claude/settings.json", "a part of its path is a file")
}

// Planning alone changes nothing.
func TestPlanChangesNothing(t *testing.T) {
	home := t.TempDir()
	for _, client := range []string{"claude", "codex", "cursor"} {
		for _, undo := range []bool{false, true} {
			testkit.Got(connect.Plan(client, place(home), undo))(t)
		}
	}
	testkit.Must(t, filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		testkit.Check(t, path == home, "there is %s", path)
		return err
	}))
}

// exact connects and undoes, each twice, and returns what is wrong with the bytes.
func exact(client string, p connect.Place, path string, before []byte) error {
	if err := errorsOf(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, before, 0o755)); err != nil {
		return err
	}
	for i, undo := range []bool{false, false, true, true} {
		changes, err := connect.Plan(client, p, undo)
		if err == nil {
			err = connect.Apply(changes)
		}
		after, _ := os.ReadFile(path)
		if err != nil || i%2 == 1 && len(changes) > 0 || undo != bytes.Equal(after, before) {
			return fmt.Errorf("undo %v of %q, time %d: it is %q, %d changes, %w", undo, before, i%2, after, len(changes), err)
		}
	}
	return nil
}

// Undo restores the same bytes.
func TestUndoIsExact(t *testing.T) {
	json := []string{
		"", "\n", "{}", "{}\n", "{\n}\n", "{ }", "{ // mine\n}\n", "{\n  // mine\n}\n", "\n\n{}", "// mine\n{}\n",
		`{"a":1}`, `{"a":1,}`, "{\"a\": 1 // one\n}", "{\"a\": 1, // one\n}", "{\n\t\"a\": 1 /* one */ , /* two */\n\t// three\n}\n",
		"{\r\n  \"a\": 1\r\n}\r\n", "{\n  \"a\": 1\n\n}", "{\"a\": 1 /* c */ }",
		`{"mcpServers": {}, "hooks": {}}`, "{\n  \"mcpServers\": {\n  },\n  \"hooks\": {\n  },\n}\n",
		`{"version": 1}`, `{"version": 1, "hooks": {"stop": [], "Stop": []}}`, `{"hooks": {}, "version": 1}`,
		"{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": []}, // one\n    ],\n    \"stop\": [{\"command\": \"x\"},]\n  },\n  \"mcpServers\": {\"o\": {\"command\": \"x\"},},\n}\n",
	}
	for _, client := range []string{"claude", "cursor"} {
		for _, name := range map[string][]string{"claude": {".claude.json", ".claude/settings.json"}, "cursor": {".cursor/mcp.json", ".cursor/hooks.json"}}[client] {
			for _, text := range json {
				home := t.TempDir()
				testkit.Must(t, exact(client, place(home), filepath.Join(home, name), []byte(text)))
			}
		}
	}
	for _, text := range []string{"", "\n", "# mine", "a = 1", "a = 1\n", "a = 1\n\n", "a = 1\r\n", "[b]\nc = 1\n"} {
		home := t.TempDir()
		testkit.Must(t, exact("codex", place(home), filepath.Join(home, ".codex", "config.toml"), []byte(text)))
	}
	for _, text := range []string{"#!/bin/sh\n", "#!/bin/sh\necho mine", "#!/bin/bash\n\necho mine\n", "#!/bin/sh\r\necho\r\n"} {
		p := repository(t)
		testkit.Must(t, exact("git", p, filepath.Join(p.Project, ".git", "hooks", "pre-commit"), []byte(text)))
	}
}

// It also does for any JSON with comments, spaces and commas anywhere.
func TestUndoOfAnythingIsExact(t *testing.T) {
	home := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", "", " ", "\n", "\n  ", "\t", "\r\n", " // c\n", "/* c */", "\n  // c\n  ", "\n\n"})
		var value func(name string, depth int) string
		list := func(open, closing string, items []string) string {
			text := open
			for i, item := range items {
				text += space.Draw(t, "before") + item + space.Draw(t, "after")
				if i < len(items)-1 || rapid.Bool().Draw(t, "comma") {
					text += ","
				}
			}
			return text + space.Draw(t, "end") + closing
		}
		value = func(name string, depth int) string {
			switch name {
			case "mcpServers", "hooks", "sandbox", "network", "":
				names := map[string][]string{"": {"a", "mcpServers", "hooks", "version", "sandbox"}, "mcpServers": {"other"}, "hooks": {"Stop", "stop", "PreToolUse"}, "sandbox": {"network"}, "network": {"allowUnixSockets"}}[name]
				var members []string
				for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "keys") {
					members = append(members, `"`+key+`"`+space.Draw(t, "colon")+":"+space.Draw(t, "value")+value(key+" ", depth+1))
				}
				return list("{", "}", members)
			case "mcpServers ", "hooks ", "sandbox ", "network ":
				return value(strings.TrimSpace(name), depth)
			case "allowUnixSockets ":
				return list("[", "]", rapid.SliceOfN(rapid.SampledFrom([]string{`"/a"`, `"~/b"`}), 0, 2).Draw(t, "sockets"))
			case "Stop ", "stop ", "PreToolUse ":
				return list("[", "]", rapid.SliceOfN(rapid.SampledFrom([]string{`{"command": "x"}`, `{"hooks":[]}`}), 0, 2).Draw(t, "list"))
			}
			return rapid.SampledFrom([]string{"1", `"x"`, "[1,]", "{}"}).Draw(t, "value")
		}
		text := space.Draw(t, "first") + value("", 0) + space.Draw(t, "last")
		client := rapid.SampledFrom([]string{"claude", "cursor"}).Draw(t, "client")
		name := rapid.SampledFrom(map[string][]string{"claude": {".claude.json", ".claude/settings.json"}, "cursor": {".cursor/mcp.json", ".cursor/hooks.json"}}[client]).Draw(t, "file")
		path := filepath.Join(home, name)
		defer os.Remove(path)
		p := place(home)
		p.Socket = rapid.SampledFrom([]string{"", "/s"}).Draw(t, "socket")
		if err := exact(client, p, path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	})
}

// A name that occurs twice is refused: programs differ in which one counts.
func TestTwice(t *testing.T) {
	for _, c := range []struct{ path, text, name string }{
		{".claude.json", `{"mcpServers": {}, "mcpServers": {}}`, "mcpServers"},
		{".claude.json", `{"mcpServers": {"dibs": {"command": "dibs", "args": ["mcp"]}, "dib\u0073": {}}}`, "dibs"},
		{".claude.json", `{"mcpServers": {"dibs": {"command": "dibs", "command": "/opt/dibs", "args": ["mcp"]}}}`, "command"},
		{".claude/settings.json", `{"hooks": {}, "hooks": {}}`, "hooks"},
		{".claude/settings.json", `{"hooks": {"Stop": [], "Stop": []}}`, "Stop"},
	} {
		home := homeWith(t, c.path, c.text)
		for _, undo := range []bool{false, true} {
			if _, err := connect.Plan("claude", place(home), undo); (err == nil || !strings.Contains(err.Error(), `"`+c.name+`" is twice in it`)) && !(undo && c.name == "command") {
				t.Errorf("%s, undo %v: %v", c.text, undo, err)
			}
		}
	}
}

// If a change fails, all files are as before.
func TestAllOrNothing(t *testing.T) {
	for _, undo := range []bool{false, true} {
		home := homeWith(t, ".claude.json", `{"mine": 1}`)
		if undo {
			do(t, "claude", place(home), false)
		}
		changes := testkit.Got(connect.Plan("claude", place(home), undo))(t)
		put(t, filepath.Join(home, ".claude", "skills", "dibs", "SKILL.md"), "mine")
		want := tree(t, home)
		testkit.Fails(t, connect.Apply(changes), "try again")
		testkit.Same(t, want, tree(t, home), "undo %v:", undo)
	}
}

// Folders that connect made are removed with their files. Others stay: those reached over a link,
// and the project's own, whatever their names.
func TestFoldersGo(t *testing.T) {
	for _, client := range []string{"claude", "codex", "cursor"} {
		home, dir, own := t.TempDir(), filepath.Join(t.TempDir(), "skills"), filepath.Join(t.TempDir(), "skills")
		testkit.Must(t, os.Mkdir(dir, 0o700))
		for _, p := range []connect.Place{place(home), project(dir)} {
			do(t, client, p, false)
			do(t, client, p, true)
		}
		for _, top := range []string{home, dir} {
			entries, err := os.ReadDir(top)
			testkit.Check(t, err == nil && len(entries) == 0, "%s: %v, %v is left", client, err, entries)
		}
		settings := map[string]string{"claude": ".claude", "codex": ".agents", "cursor": ".cursor"}[client]
		testkit.Must(t, os.Mkdir(own, 0o700))
		link(t, own, filepath.Join(home, settings, "skills"))
		do(t, client, place(home), false)
		do(t, client, place(home), true)
		entries, err := os.ReadDir(filepath.Join(home, settings, "skills"))
		testkit.Check(t, err == nil && len(entries) == 0, "%s: %v, %v is behind the link", client, err, entries)
	}
}

// A file with absurdly deep nesting is refused before the parser runs out of stack.
func TestNested(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("[", 2_000_000)
	put(t, filepath.Join(dir, ".mcp.json"), `{"a": `+deep)
	put(t, filepath.Join(dir, ".codex", "config.toml"), "a = "+deep)
	for _, client := range []string{"claude", "codex"} {
		if _, err := connect.Plan(client, project(dir), false); err == nil || !strings.Contains(err.Error(), "nested") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line that says so", client, err)
		}
	}
}

const skillPath = ".claude/skills/dibs/SKILL.md"

// A skill of that name that we did not write is refused before anything is written, and stays.
func TestAnotherSkill(t *testing.T) {
	for client, path := range map[string]string{"claude": skillPath, "codex": ".agents/skills/dibs/SKILL.md", "cursor": ".cursor/skills/dibs/SKILL.md"} {
		for _, text := range []string{"---\nname: dibs\n---\nMy own.\n", ""} {
			home := homeWith(t, path, text)
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
		testkit.Same(t, map[string]string{}, tree(t, home), "left")
	}
}

// Skills as dibs skill prints them, and those from before they were signed, are ours.
func TestSkillWithoutSignature(t *testing.T) {
	first := testkit.Got(os.ReadFile("testdata/first-skill.md"))(t)
	for _, text := range []string{string(first), string(place("").Skill)} {
		home := homeWith(t, skillPath, text)
		do(t, "claude", place(home), false)
		do(t, "claude", place(home), true)
		testkit.Same(t, map[string]string{}, tree(t, home), "left")
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
			unchanged(t, client, p, false)
			for name, was := range tree(t, home) {
				text := strings.Replace(was, `"mcp"`, `"mcp", "--agent", "Sandman"`, 1)
				for _, stop := range []string{"hook Stop", "hook stop"} {
					text = strings.Replace(text, stop, stop+" --socket /run/s", 1)
				}
				put(t, filepath.Join(home, name), text)
			}
			unchanged(t, client, p, false)
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
			testkit.Same(t, map[string]string{}, tree(t, home), "left")
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
		home := homeWith(t, c.path, c.text)
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
		unchanged(t, "codex", place(home), false)
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
	unchanged(t, "codex", place(home), false)
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
