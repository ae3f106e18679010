//go:build unix

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// owners reports whether files have owners on this system.
const owners = true

// NoFollow is the flag of os.OpenFile that keeps it from following a link.
const NoFollow = syscall.O_NOFOLLOW

// Owner returns the user that a file belongs to, or -1.
func Owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// Group returns the group that a file belongs to, or -1.
func Group(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Gid) }

// openToGroup reports whether a group other than the owner's own may write.
func openToGroup(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o020 != 0 && Group(info) != Owner(info)
}

// openPlain opens a file. It does not follow a link at the end of the path, and does not wait for
// the other end of a pipe.
func openPlain(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|NoFollow|syscall.O_NONBLOCK, mode)
	if errors.Is(err, syscall.ELOOP) {
		return nil, isLink(path)
	}
	return f, err
}

// lock locks a file until it is closed, exclusively (alone) or shared. An exclusive lock does not
// wait: the error says that another process has a lock, or that there are no locks here.
func lock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	return syscall.Flock(int(f.Fd()), how)
}

func userName(info fs.FileInfo) string { return UserName(Owner(info)) }

// UserName returns a user's name and number, or the number alone.
func UserName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (uid %d)", u.Username, uid)
	}
	return strconv.Itoa(uid)
}

func groupName(info fs.FileInfo) string {
	gid := strconv.Itoa(Group(info))
	if g, err := user.LookupGroupId(gid); err == nil {
		return g.Name
	}
	return gid
}
