//go:build !linux

package runner

import "syscall"

func rename() {}

func adopt(bool) {}

func attributes(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

func descendants() (pids []int, known bool) { return nil, false }
