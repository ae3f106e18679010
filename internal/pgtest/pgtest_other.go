//go:build !linux

package pgtest

import (
	"os/exec"
	"syscall"
)

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}

func start(cmd *exec.Cmd) error { return cmd.Start() }
