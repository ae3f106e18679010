package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dibs/internal/kit/safefile"
)

// WriteFile writes c as YAML to a file that only this user can read, and makes its directory if
// necessary. It fails if the file exists, unless replace is set: then it renames the old file to
// .bak, and whoever could read that may read the new one, because a daemon may run as another user.
//
// What root writes into another user's folder belongs to that user. Owner and mode are changed
// through the descriptor of the new file, and everything happens in the opened folder, even if
// something else takes its name meanwhile.
func (c Config) WriteFile(path string, replace bool) error {
	data, err := c.YAML()
	if err != nil {
		return err
	}
	dir, err := openFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("the directory of the configuration file: %w", err)
	}
	defer dir.Close()
	if err := writeIn(dir, filepath.Base(path), data, replace); err != nil {
		return fmt.Errorf("the configuration file %s: %w", path, err)
	}
	return nil
}

func writeIn(dir *os.Root, name string, data []byte, replace bool) error {
	temporary := ".config-" + strings.ToLower(rand.Text()) + ".yaml"
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dir.Remove(temporary)
	var old fs.FileInfo
	if replace {
		if old, err = dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			old, err = nil, nil
		}
	}
	if err == nil {
		err = give(f, dir, old)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if old != nil {
		if err := dir.Rename(name, name+".bak"); err != nil {
			return err
		}
	}
	// Unlike Rename, Link fails if there is a file.
	return dir.Link(temporary, name)
}

// give changes a new file's owner to that of its folder, or, if that is this user, to the owner of
// the file that it replaces. It gives read permission to those who could read the old file. old may
// be nil.
func give(f *os.File, dir *os.Root, old fs.FileInfo) error {
	folder, err := dir.Stat(".")
	if err != nil {
		return err
	}
	if old != nil && (!old.Mode().IsRegular() || folder.Mode().Perm()&0o002 != 0) {
		old = nil // anybody may have made it
	}
	uid, gid := safefile.Owner(folder), safefile.Group(folder)
	mode := fs.FileMode(0o600)
	mine := uid == os.Geteuid()
	if old != nil && (mine || safefile.Owner(old) == uid) {
		// Only the folder's owner can have put it there like this.
		uid, gid, mode = safefile.Owner(old), safefile.Group(old), old.Mode().Perm()&^0o022
	} else if mine {
		return nil
	}
	if uid < 0 {
		return f.Chmod(mode)
	}
	if os.Geteuid() != 0 {
		uid = -1
	}
	if err := f.Chown(uid, gid); err != nil {
		mode &^= 0o070 // the group is not the one that could read the old file
	}
	return f.Chmod(mode)
}

// openFolder opens a directory. It makes it and its parents if necessary, each owned by the owner
// of its parent.
func openFolder(path string) (*os.Root, error) {
	dir, err := os.OpenRoot(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return dir, err
	}
	above, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	name := filepath.Base(path)
	if err := above.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	dir, err = above.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if err := inherit(dir, above); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// inherit gives a directory that root has just made to the owner of its parent. That owner may have
// put another one in its place: a directory with something in it is left as it is.
func inherit(dir, above *os.Root) error {
	info, err := above.Stat(".")
	if err != nil || os.Geteuid() != 0 || safefile.Owner(info) <= 0 {
		return err
	}
	made, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer made.Close()
	if _, err := made.ReadDir(1); !errors.Is(err, io.EOF) {
		return err
	}
	return made.Chown(safefile.Owner(info), safefile.Group(info))
}
