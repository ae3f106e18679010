//go:build !linux

package worktree

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
