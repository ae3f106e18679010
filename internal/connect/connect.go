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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Clients are those that can be set up.
var Clients = []string{"claude", "codex", "cursor", "git"}

// Place is where a client's files are and what goes into them.
type Place struct {
	// Home is the user's home directory.
	Home string
	// Project is the directory of the project whose files are changed; empty for the
	// user's own, which hold in all projects.
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
	mode   fs.FileMode
}

// runnable is the mode of a file that is run, and has to be executable for that.
const runnable fs.FileMode = 0o755

// file is one file of a client's.
type file struct {
	path string
	mode fs.FileMode // of a new one
	// edit returns what the file holds with our part in it, or, with undo, without it;
	// nil for no file.
	edit func(before []byte, undo bool) ([]byte, error)
}

// Plan returns what has to be changed for a client to work with dibs, or, with undo, to
// do so no longer; nothing is changed yet. Without a change to make it is empty.
func Plan(client string, p Place, undo bool) ([]Change, error) {
	files, err := p.files(client)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, f := range files {
		// Settings are often links into a repository of them.
		path, err := behindLinks(f.path)
		if err != nil {
			return nil, err
		}
		c := Change{Path: path, mode: f.mode}
		if info, err := os.Stat(path); err == nil {
			c.mode = info.Mode().Perm()
			if c.Before, err = os.ReadFile(path); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if c.Before == nil && undo {
			continue
		}
		if f.mode == runnable && !undo && c.mode&0o111 == 0 && runtime.GOOS != "windows" {
			return nil, fmt.Errorf("%s: it is not executable, and so git does not run it: chmod +x it, or take it away", path)
		}
		if c.After, err = f.edit(c.Before, undo); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !bytes.Equal(c.Before, c.After) || (c.After == nil) != (c.Before == nil) {
			if c.Before != nil && c.mode&0o222 == 0 {
				return nil, fmt.Errorf("%s: it is read-only: make it writable, or connect by hand", path)
			}
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// behindLinks returns the file that a path leads to, be it there or not.
func behindLinks(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil:
		return real, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s cannot be read: %w: connect by hand", path, err)
	}
	for range 40 { // as many as systems follow
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s cannot be read: too many links: connect by hand", path)
}

// Apply makes the changes. Each file is replaced as a whole, or not at all. One that
// was changed since Plan read it is an error.
func Apply(changes []Change) error {
	for _, c := range changes {
		now, err := os.ReadFile(c.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(now, c.Before) {
			return fmt.Errorf("%s was changed by somebody else just now: try again", c.Path)
		}
		if err := c.apply(); err != nil {
			return err
		}
	}
	return nil
}

func (c Change) apply() error {
	dir := filepath.Dir(c.Path)
	if c.After == nil {
		if err := os.Remove(c.Path); err != nil {
			return err
		}
		if filepath.Base(dir) == skillName {
			os.Remove(dir) // which was made for the skill; not if there is more in it
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(c.Path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(c.After)
	err = errors.Join(err, f.Chmod(c.mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), c.Path)
}
