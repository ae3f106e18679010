package postgres

import (
	"os/exec"
	"runtime"
	"syscall"
)

// attributes makes a program end with this process, however that ends.
func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
}

// Begin starts cmd from a thread that lives as long as this process. (Pdeathsig is sent when the
// thread ends.)
func Begin(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- cmd.Start()
		select {}
	}()
	return <-done
}
