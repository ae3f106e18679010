package connect_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"
)

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
		exact(t, "claude", p, path, []byte(before))
		do(t, "claude", p, false)
		plain, err := hujson.Standardize([]byte(tree(t, home)[name]))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), parse(t, string(plain))["sandbox"]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", before, diff)
		}
		if note := p.Sandbox("claude"); note != "" {
			t.Errorf("nothing is missing, and it says %q", note)
		}
	}
	// Elsewhere no client allows a single socket: nothing is written, and that is said.
	home := t.TempDir()
	p := place(home)
	for _, client := range []string{"claude", "codex", "cursor"} {
		do(t, client, p, false)
		if note := p.Sandbox(client); (note == "") != (client == "cursor") {
			t.Errorf("%s: it says %q", client, note)
		}
	}
	for file, text := range tree(t, home) {
		for _, never := range []string{"allowAllUnixSockets", "allowUnixSockets", "excludedCommands", "network_access", "sandbox_mode", "unix_sockets", "prefix_rule"} {
			if strings.Contains(text, never) && !strings.HasSuffix(file, ".md") {
				t.Errorf("%s has %s", file, never)
			}
		}
	}
	// What is no list is left alone.
	for _, odd := range []string{`{"sandbox": 1}`, `{"sandbox": {"network": []}}`, `{"sandbox": {"network": {"allowUnixSockets": "/a"}}}`} {
		p.Home, p.Socket = t.TempDir(), socket
		put(t, filepath.Join(p.Home, name), odd)
		refused(t, "claude", p)
	}
}
