// Package silence ends TCP connections whose other end is silent. By itself Linux would go on for a
// quarter of an hour.
package silence

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limit returns a function for the field Control of [net.Dialer] and [net.ListenConfig]: a connection
// fails once what was sent has not been acknowledged for so long, see tcp(7). Connections that a listener
// accepts have its limit.
func Limit(longest time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		if cerr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(longest.Milliseconds()))
		}); cerr != nil {
			return cerr
		}
		return err
	}
}
