package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/setup/connect"

	"github.com/google/go-cmp/cmp"
)

// If a change fails, all files are as before.
func TestAllOrNothing(t *testing.T) {
	for _, undo := range []bool{false, true} {
		home := t.TempDir()
		put(t, filepath.Join(home, ".claude.json"), `{"mine": 1}`)
		if undo {
			do(t, "claude", place(home), false)
		}
		changes, err := connect.Plan("claude", place(home), undo)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(home, ".claude", "skills", "dibs", "SKILL.md"), "mine")
		want := tree(t, home)
		if err := connect.Apply(changes); err == nil || !strings.Contains(err.Error(), "try again") {
			t.Errorf("undo %v: %v, want an error", undo, err)
		}
		if diff := cmp.Diff(want, tree(t, home)); diff != "" {
			t.Errorf("undo %v: (-want +got)\n%s", undo, diff)
		}
	}
}

// Folders that connect made are removed with their files. Others stay: those reached over a link,
// and the project's own, whatever their names.
func TestFoldersGo(t *testing.T) {
	for _, client := range []string{"claude", "codex", "cursor"} {
		home, dir, own := t.TempDir(), filepath.Join(t.TempDir(), "skills"), filepath.Join(t.TempDir(), "skills")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range []connect.Place{place(home), project(dir)} {
			do(t, client, p, false)
			do(t, client, p, true)
		}
		for _, top := range []string{home, dir} {
			entries, err := os.ReadDir(top)
			if err != nil || len(entries) > 0 {
				t.Errorf("%s: %v, %v is left", client, err, entries)
			}
		}
		settings := map[string]string{"claude": ".claude", "codex": ".agents", "cursor": ".cursor"}[client]
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		link(t, own, filepath.Join(home, settings, "skills"))
		do(t, client, place(home), false)
		do(t, client, place(home), true)
		entries, err := os.ReadDir(filepath.Join(home, settings, "skills"))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s: %v, %v is behind the link", client, err, entries)
		}
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
