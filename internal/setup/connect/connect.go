// Package connect sets clients up to work with dibs: it adds what they need to their own settings
// files, leaves everything else there unchanged, and removes it again. A file is replaced as a whole.
// Nothing outside of a project or repository is written, whatever becomes a link meanwhile.
//
// The places of these files are from documentation: Claude Code's pages on settings, MCP, hooks and
// skills, Codex's on config.toml, hooks and skills, and Cursor's on MCP, hooks and skills; git's is
// githooks(5).
package connect

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Change is the planned change of one file.
type Change struct {
	Path   string
	Before []byte // nil if there is no such file
	After  []byte // nil to remove the file
	// Kept says why a file of ours is not changed, and what to do about it; empty if it is.
	Kept   string
	target target
	mode   fs.FileMode
}

// Plan returns the changes that connect a client to dibs, or, with undo, disconnect it. It changes
// nothing. The result is empty if there is nothing to do.
func Plan(client string, p Place, undo bool) ([]Change, error) {
	files, err := p.files(client, undo)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, f := range files {
		if f.within == nil && p.Project != "" {
			f.within = []string{p.Project}
		}
		c, err := f.plan(undo)
		if err != nil {
			return nil, err
		}
		if c.Kept != "" || !same(c.Before, c.After) {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

func (f file) plan(undo bool) (Change, error) {
	to, err := f.find()
	if err != nil {
		return Change{}, err
	}
	c := Change{Path: to.path(), target: to, mode: f.mode}
	before, mode, err := to.read()
	if err != nil {
		return c, err
	}
	if c.Before = before; before != nil {
		c.mode = mode
	}
	if c.Before == nil && undo {
		return c, nil
	}
	if f.kept != nil {
		if c.Kept = f.kept(before, undo); c.Kept != "" {
			c.After = before
			return c, nil
		}
	}
	if f.mode == runnable && !undo && c.mode&0o111 == 0 {
		return c, fmt.Errorf("%s: it is not executable, and so git does not run it: chmod +x it, or take it away", c.Path)
	}
	if bytes.Count(before, []byte("["))+bytes.Count(before, []byte("{")) > maxNested {
		return c, fmt.Errorf("%s: there is more nested in it than in any settings: move it away, or connect by hand", c.Path)
	}
	if c.After, err = f.edit(before, undo); err != nil {
		return c, fmt.Errorf("%s: %w", c.Path, err)
	}
	if before != nil && !bytes.Equal(before, c.After) && c.mode&0o222 == 0 {
		return c, fmt.Errorf("%s: it is read-only: make it writable, or connect by hand", c.Path)
	}
	return c, nil
}

// Apply makes all the changes or none. Each file is replaced atomically. A file that was changed
// since Plan read it is an error.
func Apply(changes []Change) error {
	for i, c := range changes {
		err := c.exchange(c.Before, c.After)
		if err == nil {
			continue
		}
		for _, done := range slices.Backward(changes[:i]) {
			if back := done.exchange(done.After, done.Before); back != nil {
				err = fmt.Errorf("%w; and the changes already made could not be undone: %w", err, back)
			}
		}
		return err
	}
	return nil
}

// exchange replaces a file's content, which must still be before, by after.
func (c Change) exchange(before, after []byte) error {
	if c.Kept != "" {
		return nil
	}
	now, _, err := c.target.read()
	if err != nil {
		return err
	}
	if !same(now, before) {
		return fmt.Errorf("%s was changed by somebody else just now: try again", c.Path)
	}
	return c.target.write(after, c.mode)
}

// same reports whether two contents are equal, or both missing.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

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

// Standing says how a client stands to dibs.
type Standing struct {
	Here      bool // its program, or its folder of settings, is on this machine
	Connected bool // something of ours is in its files
	Current   bool // all of it is, as this dibs would write it
}

// programs are the names of the clients' programs.
var programs = map[string][]string{"claude": {"claude"}, "codex": {"codex"}, "cursor": {"cursor", "cursor-agent"}}

// Standing looks for a client's program and for our part in its files. It changes nothing.
func (p Place) Standing(client string) (s Standing, err error) {
	for _, name := range programs[client] {
		if _, err := exec.LookPath(name); err == nil {
			s.Here = true
		}
	}
	if folder, err := os.Stat(p.settings(client)); err == nil && folder.IsDir() {
		s.Here = true
	}
	theirs, err := Plan(client, p, true)
	if err != nil {
		return s, err
	}
	ours, err := Plan(client, p, false)
	s.Connected, s.Current = len(theirs) > 0, len(ours) == 0
	return s, err
}
