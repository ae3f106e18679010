//go:build !linux

package postgres

import (
	"os/exec"
	"syscall"
)

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}

// Begin starts cmd.
func Begin(cmd *exec.Cmd) error { return cmd.Start() }
