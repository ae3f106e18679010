package connect

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"dibs/internal/kit/safefile"
)

// target is the real place of a file, below a directory that nothing can lead out of, even if
// something becomes a link later.
type target struct {
	dir  string
	name string // relative to dir, without links
	file file
}

func (t target) path() string { return filepath.Join(t.dir, t.name) }

// find resolves the links on the way to a file, which may be missing. It fails if the file must be
// within some directories and is in none.
func (f file) find() (target, error) {
	real, err := safefile.Follow(f.path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return target{}, fmt.Errorf("%s cannot be there: a part of its path is a file: move that away", f.path)
	case errors.Is(err, syscall.ELOOP):
		return target{}, fmt.Errorf("%s cannot be read: the links on the way to it lead in a circle: take them away", f.path)
	case err != nil:
		return target{}, fmt.Errorf("%s cannot be read (%w): make it readable, or connect by hand", f.path, reason(err))
	case len(f.within) == 0:
		return target{filepath.Dir(real), filepath.Base(real), f}, nil
	}
	for _, dir := range f.within {
		if dir, err = safefile.Follow(dir); err != nil {
			return target{}, err
		}
		if name, err := filepath.Rel(dir, real); err == nil && filepath.IsLocal(name) {
			return target{dir, name, f}, nil
		}
	}
	return target{}, fmt.Errorf("%s leads out of %s, to %s, where nothing is changed: put a file or folder in the place of the link", f.path, f.within[0], real)
}

// read returns the file's content and mode; nil if it is missing. It does not wait for the other
// end of a pipe.
func (t target) read() ([]byte, fs.FileMode, error) {
	root, err := os.OpenRoot(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, t.unreadable(err)
	}
	defer root.Close()
	info, err := root.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case err != nil:
		return nil, 0, t.unreadable(err)
	case !info.Mode().IsRegular():
		return nil, 0, t.noFile()
	}
	f, err := root.OpenFile(t.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, t.unreadable(err)
	}
	defer f.Close()
	// The file may have been replaced since.
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, 0, t.noFile()
	}
	data, err2 := io.ReadAll(f)
	if err := errors.Join(err, err2); err != nil {
		return nil, 0, t.unreadable(err)
	}
	return data, info.Mode().Perm(), nil
}

func (t target) noFile() error {
	return fmt.Errorf("%s is not a file: move it away", t.path())
}

func (t target) unreadable(err error) error {
	return fmt.Errorf("%s cannot be read (%w): make it readable, or connect by hand", t.path(), reason(err))
}

// write replaces the file's content atomically, or, with nil data, removes the file.
func (t target) write(data []byte, mode fs.FileMode) error {
	err := t.replace(data, mode)
	if err != nil {
		return fmt.Errorf("%s cannot be changed (%w): make its folder writable, and try again", t.path(), reason(err))
	}
	return nil
}

func (t target) replace(data []byte, mode fs.FileMode) error {
	if data != nil {
		if err := os.MkdirAll(t.dir, 0o755); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, base := filepath.Split(t.name)
	if data == nil {
		if err := root.Remove(t.name); err != nil {
			return err
		}
		t.file.prune()
		return nil
	}
	if dir != "" {
		if err := root.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
			return err
		}
	}
	temporary := dir + "." + base + "-" + rand.Text()
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer root.Remove(temporary) // fails after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return root.Rename(temporary, t.name)
}

// folders are the names of the folders that we make.
var folders = []string{skillName, "skills", ".claude", ".codex", ".agents", ".cursor"}

// prune removes the empty folders that were made for a removed file, up to a link or a folder with
// other content.
func (f file) prune() {
	for dir := filepath.Dir(f.path); slices.Contains(folders, filepath.Base(dir)) && !slices.Contains(f.within, dir); dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || os.Remove(dir) != nil {
			return
		}
	}
}

// reason strips the path from an error: the message names it already.
func reason(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		return failed.Err
	}
	return err
}
