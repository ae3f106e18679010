package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/connect"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

// The server and the hooks ask the daemon that was named. Another one takes its place, and what a
// person added stays.
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
			if err := toml.Unmarshal([]byte(files[".codex/config.toml"]), &all); err != nil {
				t.Fatal(err)
			}
			all = all["mcp_servers"].(map[string]any)
		}
		it := all["dibs"].(map[string]any)
		return it["command"].(string), it["args"].([]any)
	}
	for _, client := range []string{"claude", "codex", "cursor"} {
		home := t.TempDir()
		do(t, client, named(home, "/a.sock"), false)
		command, args := server(home, client)
		if diff := cmp.Diff([]any{"mcp", "--config", "/etc/it's.yaml", "--socket", "/a.sock"}, args); command != "/opt/bin/dibs" || diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", client, command, diff)
		}
		if again := do(t, client, named(home, "/a.sock"), false); again != nil {
			t.Errorf("%s: connected twice: %v", client, again)
		}
		if again := do(t, client, func() connect.Place { p := named(home, ""); p.Flags = nil; return p }(), false); again != nil {
			t.Errorf("%s: without a name %v changed", client, again)
		}
		for name, was := range tree(t, home) {
			put(t, filepath.Join(home, name), strings.Replace(was, `"/a.sock"`, `"/a.sock", "--agent", "Sandman"`, 1))
		}
		part := named(home, "/a.sock")
		part.Flags = part.Flags[:1]
		if again := do(t, client, part, false); again != nil {
			t.Errorf("%s: with a part of the names %v changed", client, again)
		}
		do(t, client, named(home, "/b.sock"), false)
		if again := do(t, client, named(home, "/b.sock"), false); again != nil {
			t.Errorf("%s: the other one twice: %v", client, again)
		}
		_, args = server(home, client)
		if args[4] != "/b.sock" || args[6] != "Sandman" {
			t.Errorf("%s: args %q", client, args)
		}
		var all strings.Builder
		for _, text := range tree(t, home) {
			all.WriteString(text)
		}
		hook := `/opt/bin/dibs hook stop --config '/etc/it'\\''s.yaml' --socket /b.sock"`
		if text := all.String(); strings.Contains(text, "/a.sock") || !strings.Contains(strings.ToLower(text), hook) {
			t.Errorf("%s: it is\n%s", client, text)
		}
		do(t, client, named(home, "/c.sock"), true)
		if left := tree(t, home); len(left) > 0 {
			t.Errorf("%s: left %v", client, left)
		}
	}
	// A server that a person gave Codex is not ours to edit: it says what is missing.
	home := t.TempDir()
	put(t, filepath.Join(home, ".codex/config.toml"), "[mcp_servers.dibs]\ncommand = \"/opt/bin/dibs\"\nargs = [\"mcp\"]\n")
	if _, err := connect.Plan("codex", named(home, "/a.sock"), false); err == nil || !strings.Contains(err.Error(), `give it the args "mcp", "--config", "/etc/it's.yaml", "--socket", "/a.sock"`) {
		t.Errorf("err = %v", err)
	}
	// git
	p := repository(t)
	p.Flags = [][2]string{{"--socket", "/a.sock"}}
	do(t, "git", p, false)
	path := ".git/hooks/pre-commit"
	if text := tree(t, p.Project)[path]; !strings.Contains(text, "dibs hook pre-commit --socket /a.sock || ") {
		t.Errorf("it is %s", text)
	}
	p.Flags = nil
	if again := do(t, "git", p, false); again != nil {
		t.Errorf("without a name %v changed", again)
	}
}

// Clients that are here are told from others, and connected ones, too.
func TestHere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", "")
	p := place(home)
	at := func(client string) connect.Standing {
		t.Helper()
		s, err := p.Standing(client)
		if err != nil {
			t.Error(err)
		}
		return s
	}
	put(t, filepath.Join(home, ".claude/history.jsonl"), "")
	want := map[string]connect.Standing{"claude": {Here: true}, "codex": {}, "cursor": {}}
	for client, w := range want {
		if got := at(client); got != w {
			t.Errorf("%s: %+v, want %+v", client, got, w)
		}
	}
	do(t, "claude", p, false)
	if got := at("claude"); got != (connect.Standing{Here: true, Connected: true, Current: true}) {
		t.Errorf("connected: %+v", got)
	}
	p.Dibs = "/opt/dibs"
	if got := at("claude"); got != (connect.Standing{Here: true, Connected: true}) {
		t.Errorf("connected by another dibs: %+v", got)
	}
	t.Setenv("PATH", home)
	put(t, filepath.Join(home, "codex"), "")
	if err := os.Chmod(filepath.Join(home, "codex"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := at("codex"); !got.Here {
		t.Errorf("on the path: %+v", got)
	}
}
