// Package peer asks the kernel which process is at the other end of a unix socket, whatever that
// process says of itself.
package peer

import "net"

// Peer is the process at the other end of a connection: the one that connected, or the one that
// listens. A field is -1 if unknown.
type Peer struct{ UID, PID int }

// Unknown is an unknown process.
var Unknown = Peer{UID: -1, PID: -1}

// Of returns the process at the other end of a connection; Unknown if that is no unix socket.
func Of(c net.Conn) Peer {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return Unknown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return Unknown
	}
	found := Unknown
	if err := raw.Control(func(fd uintptr) { found = credentials(int(fd)) }); err != nil {
		return Unknown
	}
	return found
}
