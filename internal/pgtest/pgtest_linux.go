package pgtest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// attributes has the server end with the test, however that ends.
func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
}

// start starts cmd from a thread that lives as long as the process: the signal of attributes
// comes when the thread ends.
func start(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- cmd.Start()
		select {}
	}()
	return <-done
}
