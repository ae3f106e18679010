package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func credentials(fd int) peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return unknownPeer
	}
	return peer{uid: int(c.Uid), pid: int(c.Pid)}
}

// restrict sets the mode that a socket will have from its first moment in the
// file system: Linux takes it from the unbound socket.
func restrict(c syscall.RawConn) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); controlErr != nil {
		return controlErr
	}
	return err
}
