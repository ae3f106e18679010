package worktree

import "syscall"

// attributes has git end with this process, and remove its locks.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
