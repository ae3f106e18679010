// Package safefile checks that a file or directory could only have been put there by users we trust.
// On systems whose files have no owners it accepts everything.
//
// Trusted ("right") are root and the process's own user. Those that only read or connect also trust
// a user to whom one of these gave a directory, see Resolve. A directory in which others may create
// files is accepted only if it is sticky, as /tmp is, and what is in it belongs to a trusted user
// already. A group with the owner's own number counts as the owner.
package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Unsafe is the error for a file or directory that others could have put there, or could change.
type Unsafe struct {
	Path string
	// Who names those who could change it.
	Who string
	// Remedy is a command that repairs it.
	Remedy string
}

func (e *Unsafe) Error() string {
	return fmt.Sprintf("%s could change %s: run: %s", e.Who, e.Path, e.Remedy)
}

// MakeDirectory makes sure that a directory exists which only this user and root can change, and
// likewise every directory above it. It creates what is missing for this user only. The error is an
// *Unsafe, or one of the file system.
func MakeDirectory(path string) error { return makeDirectory(path, false) }

// MakeShared is MakeDirectory for a directory that may also be sticky.
func MakeShared(path string) error { return makeDirectory(path, true) }

func makeDirectory(path string, sticky bool) error {
	err := checkDirectory(path, sticky)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What exists on the way is safe.
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return checkDirectory(path, sticky)
}

// checkDirectory returns an fs.ErrNotExist if something is missing and all that exists is safe.
func checkDirectory(path string, sticky bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	steps, _, missing := walk(path)
	for i, s := range steps {
		last := missing == nil && i == len(steps)-1
		switch {
		case !right(s.info):
			return &Unsafe{Path: s.path, Who: "user " + userName(s.info), Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), s.path)}
		case s.info.Mode().Type() == fs.ModeSymlink:
		case !s.info.IsDir():
			return fmt.Errorf("%s is not a directory: move it away", s.path)
		case s.info.Mode()&fs.ModeSticky != 0 && (sticky || !last):
		case s.info.Mode().Perm()&0o002 != 0:
			return &Unsafe{Path: s.path, Who: everybody, Remedy: "chmod o-w " + s.path}
		case openToGroup(s.info):
			return &Unsafe{Path: s.path, Who: "group " + groupName(s.info), Remedy: "chmod g-w " + s.path}
		}
	}
	return missing
}

const everybody = "every user of this machine"

// Open opens a file that belongs to this user or root, and that nobody else can write. It does not
// follow a link, which could lead to a file that must not change. The directory of the file must be
// safe already.
func Open(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := openPlain(path, flag, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = Check(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Check returns an error unless Open would accept the file at path. info must be from Lstat.
func Check(path string, info fs.FileInfo) error {
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		return isLink(path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: move it away", path)
	case !right(info):
		return &Unsafe{Path: path, Who: "user " + userName(info), Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), path)}
	case info.Mode().Perm()&0o002 != 0:
		return &Unsafe{Path: path, Who: everybody, Remedy: "chmod o-w " + path}
	case openToGroup(info):
		return &Unsafe{Path: path, Who: "group " + groupName(info), Remedy: "chmod g-w " + path}
	}
	return nil
}

func isLink(path string) error {
	return fmt.Errorf("%s is a link, which may lead to anybody's file: put the file itself there, or remove the link", path)
}

// OpenNamed opens for reading a file that a person named, or whose place is fixed. Links may lead
// to it, and it may belong to another user, if those who could put it there are trusted, see
// Resolve. The error is an *Unsafe, or one of the file system.
func OpenNamed(path string) (*os.File, error) {
	r, err := Resolve(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: failed.Err}
	}
	if err != nil {
		return nil, err
	}
	f, err := openPlain(r.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a file", path)
	case !r.Right(Owner(info)):
		err = &Unsafe{Path: path, Who: "user " + userName(info), Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), path)}
	case info.Mode().Perm()&0o002 != 0:
		err = &Unsafe{Path: path, Who: everybody, Remedy: "chmod o-w " + path}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
