package connect

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Our part of a file of lines stands between these.
const (
	blockBegins = "# >>> dibs: dibs connect made this, and takes it out with --undo"
	blockEnds   = "# <<< dibs"
)

// cutBlock takes our part out of a file, with the empty line before it.
func cutBlock(text string) (without string, found bool, err error) {
	before, rest, found := strings.Cut(text, blockBegins+"\n")
	if !found {
		return text, false, nil
	}
	_, after, ended := strings.Cut(rest, blockEnds+"\n")
	if !ended {
		return "", true, fmt.Errorf("the line %q is missing after %q: take our part out by hand", blockEnds, blockBegins)
	}
	if strings.HasSuffix(before, "\n\n") || before == "\n" {
		before = before[:len(before)-1]
	}
	return before + after, true, nil
}

// takeOut takes our part out of a file that is none of ours otherwise. If what is left is
// nothing, there is to be no file.
func takeOut(before []byte, nothing string) ([]byte, error) {
	text, found, err := cutBlock(string(before))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return before, nil
	case strings.TrimSpace(text) == nothing:
		return nil, nil
	}
	return []byte(text), nil
}

func block(lines string) string { return blockBegins + "\n" + lines + blockEnds + "\n" }

// codexConfig edits Codex's config.toml. Tables may be added at the end of any file of
// TOML, so that nothing else in it is touched.
func (p Place) codexConfig(before []byte, undo bool) ([]byte, error) {
	if undo {
		return takeOut(before, "")
	}
	text, _, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
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
	for i, e := range []struct{ event, matcher string }{
		{"SessionStart", "startup|resume|clear|compact"}, {"PreToolUse", "apply_patch|Edit|Write"}, {"Stop", ""},
	} {
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
	return []file{{filepath.Join(string(bytes.TrimRight(out, "\r\n")), "pre-commit"), 0o755, p.preCommit}}, nil
}

// preCommit edits the hook. Our part comes first: what is there may end with exec or exit.
func (p Place) preCommit(before []byte, undo bool) ([]byte, error) {
	const shell = "#!/bin/sh"
	if undo {
		return takeOut(before, shell)
	}
	text, _, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
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
