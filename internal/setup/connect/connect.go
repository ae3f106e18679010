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
	"fmt"
	"io/fs"
	"slices"
)

// Clients are the clients that can be set up.
var Clients = []string{"claude", "codex", "cursor", "git"}

// Place says where a client's files are and what goes into them.
type Place struct {
	// Home is the user's home directory.
	Home string
	// Project is the directory of a project: only files in it are changed. Empty means the user's
	// own files, which apply to all projects.
	Project string
	// Getenv is os.Getenv or a substitute.
	Getenv func(string) string
	// Dibs is the command for dibs, an absolute path: clients may have another PATH.
	Dibs string
	// Flags are names of flags and their values, for every call of dibs. They replace those of the
	// same name that are there, and others stay.
	Flags [][2]string
	// Socket is the daemon's socket, for sandboxes that can allow a single one; empty on systems
	// where none can.
	Socket string
	// Skill is the text of the skill.
	Skill []byte
}

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

// runnable is the mode of a file that must be executable.
const runnable fs.FileMode = 0o755

// maxNested bounds the lists and objects in a file. The parsers recurse for each level, and Go ends
// a program at about a million.
const maxNested = 300_000

// file is one file of a client's.
type file struct {
	path string
	mode fs.FileMode // for a new file
	// within are directories: the file must be in one of them, links resolved. Nil allows any
	// place: users often link their own files into a repository of settings.
	within []string
	// edit returns the file's new content, with our part or, with undo, without it; nil for no
	// file.
	edit func(before []byte, undo bool) ([]byte, error)
	// kept, if set, returns why a file is not edited; empty if it is.
	kept func(before []byte, undo bool) string
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
