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
	"slices"
	"strings"
	"syscall"
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

// Resolved is a path without links, and the users who could have put something there.
type Resolved struct {
	Path string
	uids []int // trusted users besides root and this user
}

// Right reports whether a user is trusted with this path: this user, root, or the owner of a
// directory on the way that only trusted users could put there. Root made /home/ann for ann, so ann
// is trusted below it. Anybody can make /tmp/ann, so its owner is not.
func (r Resolved) Right(uid int) bool {
	return !owners || uid == 0 || uid == os.Geteuid() || slices.Contains(r.uids, uid)
}

// Resolve follows a path over its links. What is at its end may belong to anybody. If a link or a
// directory on the way belongs to a user who is not trusted, the error is an *Unsafe.
func Resolve(path string) (Resolved, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Resolved{}, err
	}
	steps, end, err := walk(path)
	if err != nil {
		return Resolved{}, err
	}
	r := Resolved{Path: end}
	for i, s := range steps {
		switch uid := Owner(s.info); {
		case r.Right(uid):
		case !s.open:
			r.uids = append(r.uids, uid)
		case i < len(steps)-1:
			return Resolved{}, &Unsafe{Path: s.path, Who: "user " + userName(s.info), Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), s.path)}
		}
	}
	return r, nil
}

// Follow returns where a path leads over its links, whoever made them. A missing part is kept as
// written. The error is one of the file system.
func Follow(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	_, end, err := walk(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return end, err
}

// step is one file, directory or link on the way to a path.
type step struct {
	path string
	info fs.FileInfo // a link's own, not its target's
	open bool        // users other than the directory's owner could have created it
}

// maxLinks bounds the links on the way, as on Linux.
const maxLinks = 40

// walk returns every step of an absolute path, from the root to its end, over links, and the path
// of the end without links. With an error it returns the steps so far, and the end as far as it is
// known, followed by the rest.
func walk(path string) (steps []step, end string, err error) {
	if !owners {
		_, err := os.Stat(path)
		return nil, path, err
	}
	info, err := os.Lstat("/")
	if err != nil {
		return nil, path, err
	}
	at, left, links := "/", strings.Split(path, "/"), 0
	steps = []step{{path: at, info: info}}
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		end = filepath.Join(append([]string{next}, left...)...)
		in, err := os.Lstat(at)
		if err != nil {
			return steps, end, err
		}
		info, err := os.Lstat(next)
		if err != nil {
			return steps, end, err
		}
		steps = append(steps, step{next, info, in.Mode().Perm()&0o002 != 0 || openToGroup(in)})
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return steps, end, err
		}
		if links++; links > maxLinks {
			return steps, end, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return steps, at, nil
}

// right reports whether something belongs to this user or to root.
func right(info fs.FileInfo) bool {
	uid := Owner(info)
	return uid == nobody || uid == 0 || uid == os.Geteuid()
}

// nobody is the owner where files have none.
const nobody = -1

// Scratch creates a file for this user alone in the directory for temporary files. Its name begins
// with prefix and ends with suffix. RemoveAbandoned leaves it while it is open. The caller removes
// it.
func Scratch(prefix, suffix string) (*os.File, error) {
	for {
		f, err := os.CreateTemp("", prefix+"*"+suffix)
		if err != nil {
			return nil, err
		}
		// Without locks RemoveAbandoned removes nothing.
		_ = lock(f, false)
		if isAt(f.Name(), f) {
			return f, nil
		}
		f.Close() // it was removed before it was locked
	}
}

// RemoveAbandoned removes the files of Scratch with that prefix and suffix whose process died
// before it removed them. It leaves files of other users, and links.
func RemoveAbandoned(prefix, suffix string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			removeAbandoned(filepath.Join(os.TempDir(), e.Name()))
		}
	}
}

func removeAbandoned(path string) {
	f, err := Open(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && Owner(info) == os.Geteuid() && lock(f, true) == nil && isAt(path, f) {
		os.Remove(path)
	}
}

// isAt reports whether f is the file at path.
func isAt(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(there, info)
}
