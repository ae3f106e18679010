package server

import (
	"context"
	"net"
)

// peer is the process at the other end of a connection, as the kernel knows
// it. A field is -1 where it is not known.
type peer struct{ uid, pid int }

var unknownPeer = peer{uid: -1, pid: -1}

// peerOf asks the kernel who is at the other end of a unix socket.
func peerOf(c net.Conn) peer {
	if known, ok := c.(*countedConn); ok {
		return known.peer
	}
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return unknownPeer
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknownPeer
	}
	found := unknownPeer
	if err := raw.Control(func(fd uintptr) { found = credentials(int(fd)) }); err != nil {
		return unknownPeer
	}
	return found
}

type callerKey struct{}

// withCaller notes in the context of a connection's requests which user calls.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, peerOf(c).uid)
}

// caller returns the user whose request it is, or -1.
func caller(ctx context.Context) int { return ctx.Value(callerKey{}).(int) }
