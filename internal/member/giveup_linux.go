package member

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// silence is for how long what was sent may stay without a sign from the other machine, in
// milliseconds.
const silence = 10_000

// giveUp has a connection fail whose other end is silent, see tcp(7).
func giveUp(_, _ string, c syscall.RawConn) (err error) {
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, silence)
	}); cerr != nil {
		return cerr
	}
	return err
}
