package connect

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Our part of a file of lines stands between these.
const (
	blockBegins = "# >>> dibs: dibs connect made this, and takes it out with --undo"
	blockEnds   = "# <<< dibs"
)

// parts are a file of lines around our part, and our part. Nothing of ours leaves all in before.
type parts struct {
	before, ours, after string
}

// cutBlock takes our part out of a file, with the empty line before it. An editor may have
// changed how lines end, and the last line may have no end.
func cutBlock(text string) (p parts, err error) {
	begins, inside, ends, at := -1, 0, -1, 0
	for line := range strings.Lines(text) {
		switch strings.TrimRight(line, "\r\n") {
		case blockBegins:
			if begins < 0 {
				begins, inside = at, at+len(line)
			}
		case blockEnds:
			if begins >= 0 && ends < 0 {
				ends = at
				p.after = text[at+len(line):]
			}
		}
		at += len(line)
	}
	switch {
	case begins < 0:
		return parts{before: text}, nil
	case ends < 0:
		return parts{}, fmt.Errorf("the line %q is missing after %q: take our part out by hand", blockEnds, blockBegins)
	}
	p.before, p.ours = text[:begins], text[inside:ends]
	for _, end := range []string{"\r\n", "\n"} {
		if strings.HasSuffix(p.before, "\n"+end) || p.before == end {
			p.before = p.before[:len(p.before)-len(end)]
			break
		}
	}
	return p, nil
}

// takeOut takes our part out of a file that is none of ours otherwise. If what is left is
// nothing, there is to be no file.
func takeOut(before []byte, nothing string, others func(ours string) string) ([]byte, error) {
	p, err := cutBlock(string(before))
	text := p.before + others(p.ours) + p.after
	switch {
	case err != nil:
		return nil, err
	case text == string(before):
		return before, nil
	case strings.TrimSpace(text) == nothing:
		return nil, nil
	}
	return []byte(text), nil
}

// noOthers is for files in which nobody but a person writes between our lines.
func noOthers(string) string { return "" }

// table is the first line of one in TOML.
var table = regexp.MustCompile(`^\s*\[\[?\s*([A-Za-z0-9_."'-]+)`)

// sortTables tells the tables within our part that are ours from those that are not. Codex
// adds what it remembers, such as which projects are trusted, after the last table: that is
// before our last line.
func sortTables(part string) (ours, theirs string) {
	var own, out strings.Builder
	others := false
	for line := range strings.Lines(part) {
		if m := table.FindStringSubmatch(line); m != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(m[1], "hooks."), ".")
			others = m[1] != "mcp_servers.dibs" && !strings.HasPrefix(m[1], "mcp_servers.dibs.") &&
				!slices.ContainsFunc(codexHooks, func(h codexHook) bool { return h.event == name })
		}
		if others {
			out.WriteString(line)
		} else {
			own.WriteString(line)
		}
	}
	return own.String(), out.String()
}

func othersTables(part string) string {
	_, theirs := sortTables(part)
	return theirs
}

func block(lines string) string { return blockBegins + "\n" + lines + blockEnds + "\n" }

// codexConfig edits Codex's config.toml. Tables may be added at the end of any file of
// TOML, so that nothing else in it is touched.
func (p Place) codexConfig(before []byte, undo bool) ([]byte, error) {
	if undo {
		return takeOut(before, "", othersTables)
	}
	cut, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
	if p.hasAll(cut.ours) {
		return before, nil // with what somebody may have added to it
	}
	text := cut.before + othersTables(cut.ours) + cut.after
	var there struct {
		Servers map[string]any `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal([]byte(text), &there); err != nil {
		return nil, fmt.Errorf("it is not TOML (%w): mend it, or connect by hand", err)
	}
	var b strings.Builder
	if _, other := there.Servers["dibs"]; !other {
		fmt.Fprintf(&b, "[mcp_servers.dibs]\ncommand = %s\nargs = [\"mcp\"]\n\n", tomlString(p.Dibs))
	}
	for i, e := range codexHooks {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[[hooks.%s]]\n", e.event)
		if e.matcher != "" {
			fmt.Fprintf(&b, "matcher = %s\n", tomlString(e.matcher))
		}
		fmt.Fprintf(&b, "\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n", e.event, tomlString(p.hook(e.event)), hookTimeout)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if text != "" {
		text += "\n"
	}
	after := text + block(b.String())
	var whole map[string]any
	if err := toml.Unmarshal([]byte(after), &whole); err != nil {
		return nil, fmt.Errorf("our tables cannot be added to it (%w): connect by hand, see docs/agents.md", err)
	}
	return []byte(after), nil
}

type codexHook struct{ event, matcher string }

var codexHooks = []codexHook{
	{"SessionStart", "startup|resume|clear|compact"}, {"PreToolUse", "apply_patch|Edit|Write"}, {"Stop", ""},
}

// hasAll reports whether our part has everything that it would be given now.
func (p Place) hasAll(part string) bool {
	ours, _ := sortTables(part)
	type group struct {
		Hooks []struct{ Command string }
	}
	var has struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `toml:"mcp_servers"`
		Hooks map[string][]group
	}
	if toml.Unmarshal([]byte(ours), &has) != nil {
		return false
	}
	// A server of that name that stands elsewhere is for the caller to find.
	if s := has.Servers["dibs"]; s.Command != p.Dibs || len(s.Args) == 0 || s.Args[0] != "mcp" {
		return false
	}
	for _, h := range codexHooks {
		if !slices.ContainsFunc(has.Hooks[h.event], func(g group) bool {
			return len(g.Hooks) > 0 && g.Hooks[0].Command == p.hook(h.event)
		}) {
			return false
		}
	}
	return true
}

func tomlString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// git is the hook that looks at every commit of the project's repository.
func (p Place) git() ([]file, error) {
	cmd := exec.Command("git", "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	cmd.Dir = p.Project
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return nil, fmt.Errorf("git does not know a repository here: %s", bytes.TrimSpace(failed.Stderr))
		}
		return nil, fmt.Errorf("git could not be asked where its hooks are: %w", err)
	}
	return []file{{filepath.Join(string(bytes.TrimRight(out, "\r\n")), "pre-commit"), runnable, p.preCommit}}, nil
}

// preCommit edits the hook. Our part comes first: what is there may end with exec or exit.
func (p Place) preCommit(before []byte, undo bool) ([]byte, error) {
	const shell = "#!/bin/sh"
	if undo {
		return takeOut(before, shell, noOthers)
	}
	cut, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
	text := cut.before + cut.after
	if text == "" {
		text = shell + "\n"
	}
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "#!") || !isShell(filepath.Base(strings.TrimSpace(first))) {
		return nil, fmt.Errorf("it is a hook, but not of a shell (%q): have it call %q and refuse on exit code 2", first, p.hook("pre-commit"))
	}
	return []byte(first + "\n\n" + block(p.hook("pre-commit")+" || [ $? -ne 2 ] || exit 1\n") + rest), nil
}

// isShell reports whether the end of a hook's first line names a shell.
func isShell(name string) bool {
	fields := strings.Fields(name)
	for _, f := range fields {
		switch f {
		case "sh", "bash", "dash", "ksh", "zsh":
			return true
		}
	}
	return false
}
