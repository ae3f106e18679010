// Package connect sets clients up to work with dibs: it writes what they need into the
// files in which they keep their own settings, leaves everything else there as it is, and
// takes it out again.
//
// Where the clients look is from their documentation: Claude Code's pages on settings, MCP,
// hooks and skills, Codex's on config.toml, hooks and skills, and Cursor's on MCP, hooks
// and skills; git's is githooks(5).
package connect

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
)

// Clients are those that can be set up.
var Clients = []string{"claude", "codex", "cursor", "git"}

// Place is where a client's files are and what goes into them.
type Place struct {
	// Home is the user's home directory.
	Home string
	// Project is the directory of the project whose files are changed, and none outside of
	// it; empty for the user's own, which hold in all projects.
	Project string
	// Getenv is os.Getenv, or like it.
	Getenv func(string) string
	// Dibs is how dibs is called: its name, or its path where it is not on PATH.
	Dibs string
	// Skill is the text of the skill.
	Skill []byte
}

// Change is what becomes of one file.
type Change struct {
	Path   string
	Before []byte // nil if there is no such file
	After  []byte // nil if there is to be none
	// Kept says why the file stays as it is, though it is ours, and what to do about it;
	// empty if it is changed.
	Kept   string
	target target
	mode   fs.FileMode
}

// runnable is the mode of a file that is run, and has to be executable for that.
const runnable fs.FileMode = 0o755

// maxNested is how many lists and objects there may be in a file. What reads it calls itself for
// each that is in another one, and Go ends a program that does so a million times.
const maxNested = 300_000

// file is one file of a client's.
type file struct {
	path string
	mode fs.FileMode // of a new one
	// within are directories, of which the file has to be in one, over links too; none
	// for a user's own files, which are often links into a repository of settings.
	within []string
	// edit returns what the file holds with our part in it, or, with undo, without it;
	// nil for no file.
	edit func(before []byte, undo bool) ([]byte, error)
	// kept, if it is there, says why a file is not edited, or nothing.
	kept func(before []byte, undo bool) string
}

// Plan returns what has to be changed for a client to work with dibs, or, with undo, to
// do so no longer; nothing is changed yet. Without a change to make it is empty.
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

// Apply makes the changes, all or none. Each file is replaced as a whole. One that was changed
// since Plan read it is an error.
func Apply(changes []Change) error {
	for i, c := range changes {
		err := c.exchange(c.Before, c.After)
		if err == nil {
			continue
		}
		for _, done := range slices.Backward(changes[:i]) {
			if back := done.exchange(done.After, done.Before); back != nil {
				err = fmt.Errorf("%w; and what was changed before stays so: %w", err, back)
			}
		}
		return err
	}
	return nil
}

// exchange has the file hold something else than it has to hold by then.
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

// same reports whether two files hold the same, or are not there.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
