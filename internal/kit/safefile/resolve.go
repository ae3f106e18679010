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
