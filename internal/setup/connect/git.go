package connect

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// gitHooks are the hooks of git that dibs answers.
var gitHooks = []string{"pre-commit", "pre-push"}

// git returns the hooks that check every commit and push of the project's repository. Hooks outside of the
// repository are left alone: other repositories may share them.
func (p Place) git(undo bool) ([]file, error) {
	repository, err := p.askGit("--git-common-dir")
	if err != nil {
		return nil, fmt.Errorf("git does not know a repository here: %w", err)
	}
	hooks, err := p.askGit("--git-path", "hooks")
	if err != nil {
		return nil, fmt.Errorf("git cannot say where its hooks are (%w): see git config core.hooksPath", err)
	}
	within := []string{repository}
	if tree, err := p.askGit("--show-toplevel"); err == nil { // a bare repository has no tree
		within = []string{tree, repository}
	}
	var all []file
	for _, name := range gitHooks {
		all = append(all, file{path: filepath.Join(hooks, name), mode: runnable, within: within, edit: p.gitHook(name)})
	}
	if _, err := (file{path: hooks, within: within}).find(); err != nil {
		if undo {
			return nil, fmt.Errorf("core.hooksPath points outside this repository (%s is not below %s): take the lines of dibs out of %s and %s yourself, if they have any", hooks, within[0], all[0].path, all[1].path)
		}
		return nil, fmt.Errorf("core.hooksPath points outside this repository (%s is not below %s): add %q to %s, and likewise %s, yourself; exit code 2 must stop the commit, and the push", hooks, within[0], p.hook(gitHooks[0], ""), all[0].path, gitHooks[1])
	}
	return all, nil
}

// askGit asks git for a path.
func (p Place) askGit(what ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"rev-parse", "--path-format=absolute"}, what...)...)
	cmd.Dir = p.Project
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		first, _, _ := bytes.Cut(bytes.TrimSpace(failed.Stderr), []byte("\n"))
		return "", fmt.Errorf("%s", first)
	}
	return string(bytes.TrimRight(out, "\r\n")), err
}

// gitHook returns what edits a hook. Our part comes first: the rest may end with exec or exit.
func (p Place) gitHook(name string) func([]byte, bool) ([]byte, error) {
	return func(before []byte, undo bool) ([]byte, error) { return p.editHook(name, before, undo) }
}

func (p Place) editHook(name string, before []byte, undo bool) ([]byte, error) {
	const shell = "#!/bin/sh"
	cut, err := cutBlock(string(before))
	if err != nil {
		return nil, err
	}
	text := cut.rest("")
	switch {
	case undo && cut.found && text == shell:
		return nil, nil
	case undo:
		return []byte(text), nil
	}
	const refuses = " || [ $? -ne 2 ] || exit 1\n"
	_, flags, _ := calls(strings.TrimSuffix(cut.ours, refuses), name)
	line := p.hook(name, flags) + refuses
	if cut.ours == line {
		return before, nil
	}
	ours := block(line)
	if text == "" || cut.found && text == shell {
		return []byte(shell + "\n" + ours), nil // no empty line: that marks a file that is all ours
	}
	first, rest, _ := strings.Cut(text, "\n")
	if !shells.MatchString(first) {
		return nil, fmt.Errorf("it is a hook, but not of a shell (%q): have it call %q and refuse on exit code 2", first, p.hook(name, ""))
	}
	return []byte(first + "\n\n" + ours + rest), nil
}

// shells matches the first line of a shell script.
var shells = regexp.MustCompile(`^#!\s*(\S*/)?(env\s+(-S\s+)?)?(ba|da|k|z)?sh(\s|$)`)
