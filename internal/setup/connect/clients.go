package connect

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// files returns a client's files.
func (p Place) files(client string, undo bool) ([]file, error) {
	switch client {
	case "claude":
		return p.claude(), nil
	case "codex":
		return p.codex(), nil
	case "cursor":
		return p.cursor(), nil
	case "git":
		return p.git(undo)
	}
	return nil, fmt.Errorf("there is no client %q: it is one of %s", client, strings.Join(Clients, ", "))
}

// settings returns the folder of a client's settings.
func (p Place) settings(client string) string {
	if dir := p.Getenv(map[string]string{"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}[client]); dir != "" && p.Project == "" {
		return dir
	}
	return filepath.Join(cmp.Or(p.Project, p.Home), "."+client)
}

func (p Place) claude() []file {
	settings, servers := p.settings("claude"), filepath.Join(p.Project, ".mcp.json")
	if p.Project == "" {
		servers = filepath.Join(cmp.Or(p.Getenv("CLAUDE_CONFIG_DIR"), p.Home), ".claude.json")
	}
	entry := func(event, matcher string) group {
		return group{Matcher: matcher, Hooks: []handler{{Type: "command", Command: p.hook(event, ""), Timeout: hookTimeout}}}
	}
	edit := p.hooks(setting{},
		hookEntry{"SessionStart", entry("SessionStart", "")},
		hookEntry{"PreToolUse", entry("PreToolUse", "Edit|Write|MultiEdit|NotebookEdit")},
		hookEntry{"Stop", entry("Stop", "")},
	)
	if p.Socket != "" {
		edit = both(edit, p.allow)
	}
	return []file{
		{path: servers, mode: 0o600, edit: p.server(map[string]any{"type": "stdio", "command": p.Dibs, "args": p.args(nil)})},
		{path: filepath.Join(settings, "settings.json"), mode: 0o600, edit: edit},
		p.skill(settings),
	}
}

func (p Place) codex() []file {
	skills := filepath.Join(cmp.Or(p.Project, p.Home), ".agents")
	return []file{{path: filepath.Join(p.settings("codex"), "config.toml"), mode: 0o600, edit: p.codexConfig}, p.skill(skills)}
}

func (p Place) cursor() []file {
	dir := p.settings("cursor")
	type entry struct {
		Command string `json:"command"`
		Matcher string `json:"matcher,omitempty"`
	}
	return []file{
		{path: filepath.Join(dir, "mcp.json"), mode: 0o600, edit: p.server(map[string]any{"command": p.Dibs, "args": p.args(nil)})},
		{path: filepath.Join(dir, "hooks.json"), mode: 0o600, edit: p.hooks(setting{"version", 1},
			hookEntry{"sessionStart", entry{p.hook("sessionStart", ""), ""}},
			hookEntry{"preToolUse", entry{p.hook("preToolUse", ""), "Write|Edit|StrReplace|MultiEdit|Delete"}},
			hookEntry{"stop", entry{p.hook("stop", ""), ""}},
		)},
		p.skill(dir),
	}
}

// hookTimeout is how many seconds a client waits for a hook. Hooks take milliseconds, and this is
// enough for a busy machine.
const hookTimeout = 5

// group and handler are hooks in the form of Claude Code and Codex.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

// shellValue matches the value of a flag in a shell's command, as ShellWord writes it.
const shellValue = `[ =](?:'(?:[^']|'\\'')*'|\S+)`

// hook returns the command that a client runs for an event. has are its flags so far.
func (p Place) hook(event, has string) string {
	for _, flag := range p.Flags {
		now, there := " "+flag[0]+" "+ShellWord(flag[1]), regexp.MustCompile(" "+flag[0]+shellValue)
		if there.MatchString(has) {
			has = there.ReplaceAllLiteralString(has, now)
		} else {
			has += now
		}
	}
	return ShellWord(p.Dibs) + " hook " + event + has
}

// args returns the arguments of the MCP server. has are those so far; nil for a new one.
func (p Place) args(has []string) []string {
	args := append([]string{}, has...)
	if len(args) == 0 {
		args = append(args, "mcp")
	}
	for _, flag := range p.Flags {
		at := slices.IndexFunc(args, func(arg string) bool { return arg == flag[0] || strings.HasPrefix(arg, flag[0]+"=") })
		switch {
		case at < 0:
			args = append(args, flag[:]...)
		case args[at] != flag[0]:
			args[at] = flag[0] + "=" + flag[1]
		case at+1 < len(args):
			args[at+1] = flag[1]
		default:
			args = append(args, flag[1])
		}
	}
	return args
}

// plainWord matches what a shell takes as it is.
var plainWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL\pN._:/@+,%-]+$`)
})

// ShellWord quotes a word for a POSIX shell, if need be.
func ShellWord(s string) string {
	if plainWord().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// calls splits a command that runs an event's hook into the program and the flags after the event.
func calls(command, event string) (program, flags string, ok bool) {
	program, flags, ok = strings.Cut(command, " hook "+event)
	if !ok || flags != "" && flags[0] != ' ' {
		return "", "", false
	}
	if bare, quoted := strings.CutPrefix(program, "'"); quoted {
		program = strings.ReplaceAll(strings.TrimSuffix(bare, "'"), `'\''`, "'")
	}
	return program, flags, true
}

// named matches the file names of dibs, perhaps with a version or a system at the end.
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^dibs([^a-z].*)?$`)
})

// isDibs reports whether a program is dibs: by its name, the only clue to a removed program, or
// because it was built from the same package as this one.
func (p Place) isDibs(program string) bool {
	if program == p.Dibs || named().MatchString(cutName(program)) {
		return true
	}
	self, ok := debug.ReadBuildInfo()
	path, err := exec.LookPath(program)
	if err != nil || !ok || self.Path == "" {
		return false
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	built, err := buildinfo.ReadFile(path)
	return err == nil && built.Path == self.Path
}
