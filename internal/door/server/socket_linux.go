package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// restrict sets the mode of a socket before it is bound: Linux gives that mode to the file from the
// first moment.
func restrict(c syscall.RawConn) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); controlErr != nil {
		return controlErr
	}
	return err
}
