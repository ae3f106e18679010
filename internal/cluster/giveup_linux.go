package cluster

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// silence is how long sent data may stay unacknowledged, in milliseconds.
const silence = 10_000

// giveUp makes a connection fail when the other end is silent, see tcp(7).
func giveUp(_, _ string, c syscall.RawConn) (err error) {
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, silence)
	}); cerr != nil {
		return cerr
	}
	return err
}
