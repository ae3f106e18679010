package peer

import "golang.org/x/sys/unix"

func credentials(fd int) Peer {
	found := Unknown
	if c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err == nil {
		found.UID = int(c.Uid)
	}
	if pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID); err == nil {
		found.PID = pid
	}
	return found
}
