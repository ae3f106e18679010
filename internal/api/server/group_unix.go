//go:build unix

package server

import (
	"io/fs"
	"syscall"
)

// groupOf returns the group that a file belongs to.
func groupOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Gid) }
