// Package peer asks the kernel who is at the other end of a unix socket: what
// that process says of itself does not count.
package peer

import "net"

// Peer is the process at the other end of a connection: the one that connected, or
// the one that began to listen. A field is -1 where it is not known.
type Peer struct{ UID, PID int }

// Unknown is a process of which nothing is known.
var Unknown = Peer{UID: -1, PID: -1}

// Of asks who is at the other end. Of what is no unix socket, nothing is known.
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
