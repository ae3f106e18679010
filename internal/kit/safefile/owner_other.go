//go:build !unix

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// owners reports whether files have owners on this system.
const owners = false

// NoFollow is the flag of os.OpenFile that keeps it from following a link.
const NoFollow = 0

// Owner returns the user that a file belongs to, or -1.
func Owner(fs.FileInfo) int { return nobody }

// Group returns the group that a file belongs to, or -1.
func Group(fs.FileInfo) int { return nobody }

func openToGroup(fs.FileInfo) bool { return false }

func openPlain(path string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag, mode)
}

func lock(*os.File, bool) error { return errors.ErrUnsupported }

func userName(info fs.FileInfo) string { return UserName(Owner(info)) }

// UserName returns a user's name and number, or the number alone.
func UserName(uid int) string { return strconv.Itoa(uid) }

func groupName(fs.FileInfo) string { return "" }
