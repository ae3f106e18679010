package connect

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// skillName is the name of the skill, and of its directory.
const skillName = "dibs"

// files are those of a client.
func (p Place) files(client string) ([]file, error) {
	switch client {
	case "claude":
		return p.claude(), nil
	case "codex":
		return p.codex(), nil
	case "cursor":
		return p.cursor(), nil
	case "git":
		return p.git()
	}
	return nil, fmt.Errorf("there is no client %q: it is one of %s", client, strings.Join(Clients, ", "))
}

func (p Place) claude() []file {
	settings, servers := filepath.Join(p.Project, ".claude"), filepath.Join(p.Project, ".mcp.json")
	if p.Project == "" {
		settings, servers = filepath.Join(p.Home, ".claude"), filepath.Join(p.Home, ".claude.json")
		if dir := p.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
			settings, servers = dir, filepath.Join(dir, ".claude.json")
		}
	}
	entry := func(event, matcher string) group {
		g := group{
			Hooks: []handler{{Type: "command", Command: p.hook(event), Timeout: hookTimeout}},
		}
		g.Matcher = matcher
		return g
	}
	return []file{
		{servers, 0o600, p.server(map[string]any{"type": "stdio", "command": p.Dibs, "args": []string{"mcp"}})},
		{filepath.Join(settings, "settings.json"), 0o600, p.hooks(nil,
			hookEntry{"SessionStart", entry("SessionStart", "")},
			hookEntry{"PreToolUse", entry("PreToolUse", "Edit|Write|MultiEdit|NotebookEdit")},
			hookEntry{"Stop", entry("Stop", "")},
		)},
		p.skill(settings),
	}
}

func (p Place) codex() []file {
	dir, skills := filepath.Join(p.Project, ".codex"), filepath.Join(p.Project, ".agents")
	if p.Project == "" {
		dir, skills = filepath.Join(p.Home, ".codex"), filepath.Join(p.Home, ".agents")
		if home := p.Getenv("CODEX_HOME"); home != "" {
			dir = home
		}
	}
	return []file{{filepath.Join(dir, "config.toml"), 0o600, p.codexConfig}, p.skill(skills)}
}

func (p Place) cursor() []file {
	dir := filepath.Join(p.Project, ".cursor")
	if p.Project == "" {
		dir = filepath.Join(p.Home, ".cursor")
	}
	entry := func(event, matcher string) any {
		e := map[string]any{"command": p.hook(event)}
		if matcher != "" {
			e["matcher"] = matcher
		}
		return e
	}
	return []file{
		{filepath.Join(dir, "mcp.json"), 0o600, p.server(map[string]any{"command": p.Dibs, "args": []string{"mcp"}})},
		{filepath.Join(dir, "hooks.json"), 0o600, p.hooks(map[string]any{"version": 1},
			hookEntry{"sessionStart", entry("sessionStart", "")},
			hookEntry{"preToolUse", entry("preToolUse", "Write|Edit|StrReplace|MultiEdit|Delete")},
			hookEntry{"stop", entry("stop", "")},
		)},
		p.skill(dir),
	}
}

// hookTimeout is how many seconds a client waits for a hook, which takes some
// milliseconds: enough for a machine at its limits.
const hookTimeout = 5

// group and handler are hooks as Claude Code and Codex have them.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

// hook is the command that a client runs for an event.
func (p Place) hook(event string) string {
	dibs := p.Dibs
	if strings.ContainsFunc(dibs, func(r rune) bool { return strings.ContainsRune(" \t'\"\\$&;()<>|*?[]#~`!", r) }) {
		dibs = "'" + strings.ReplaceAll(dibs, "'", `'\''`) + "'"
	}
	return dibs + " hook " + event
}

// skill is the file of the skill, below a directory of settings.
func (p Place) skill(settings string) file {
	return file{filepath.Join(settings, "skills", skillName, "SKILL.md"), 0o644, func(before []byte, undo bool) ([]byte, error) {
		switch {
		case !undo:
			return p.Skill, nil
		case bytes.Equal(before, p.Skill):
			return nil, nil
		default:
			return before, nil // somebody made it their own
		}
	}}
}
