package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// restrict sets the mode that a socket will have from its first moment in the
// file system: Linux takes it from the unbound socket.
func restrict(c syscall.RawConn) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); controlErr != nil {
		return controlErr
	}
	return err
}
