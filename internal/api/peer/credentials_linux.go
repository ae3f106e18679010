package peer

import "golang.org/x/sys/unix"

func credentials(fd int) Peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Unknown
	}
	return Peer{UID: int(c.Uid), PID: int(c.Pid)}
}
