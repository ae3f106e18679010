package connect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/connect"

	"pgregory.net/rapid"
)

// exact connects and undoes, each twice, and compares the bytes.
func exact(t interface {
	Helper()
	Fatalf(string, ...any)
}, client string, p connect.Place, path string, before []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(path, before, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	var connected []byte
	for i, undo := range []bool{false, false, true, true} {
		changes, err := connect.Plan(client, p, undo)
		if err == nil {
			err = connect.Apply(changes)
		}
		if err != nil {
			t.Fatalf("undo %v of %q: %v", undo, before, err)
		}
		if i%2 == 1 && len(changes) > 0 {
			t.Fatalf("undo %v of %q, the second time: %s changed", undo, before, changes[0].Path)
		}
		if !undo {
			connected, _ = os.ReadFile(path)
			if bytes.Equal(connected, before) {
				t.Fatalf("%q is not changed", before)
			}
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Fatalf("%v, afterwards it is\n%q, before\n%q, connected\n%q", err, after, before, connected)
	}
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
				exact(t, client, place(home), filepath.Join(home, name), []byte(text))
			}
		}
	}
	for _, text := range []string{"", "\n", "# mine", "a = 1", "a = 1\n", "a = 1\n\n", "a = 1\r\n", "[b]\nc = 1\n"} {
		home := t.TempDir()
		exact(t, "codex", place(home), filepath.Join(home, ".codex", "config.toml"), []byte(text))
	}
	for _, text := range []string{"#!/bin/sh\n", "#!/bin/sh\necho mine", "#!/bin/bash\n\necho mine\n", "#!/bin/sh\r\necho\r\n"} {
		p := repository(t)
		exact(t, "git", p, filepath.Join(p.Project, ".git", "hooks", "pre-commit"), []byte(text))
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
		exact(t, client, p, path, []byte(text))
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
		home := t.TempDir()
		put(t, filepath.Join(home, c.path), c.text)
		for _, undo := range []bool{false, true} {
			if _, err := connect.Plan("claude", place(home), undo); (err == nil || !strings.Contains(err.Error(), `"`+c.name+`" is twice in it`)) && !(undo && c.name == "command") {
				t.Errorf("%s, undo %v: %v", c.text, undo, err)
			}
		}
	}
}
