package server

import (
	"context"
	"net"

	"dibs/internal/api/peer"
)

// peerOf says who is at the other end of a connection.
func peerOf(c net.Conn) peer.Peer {
	if known, ok := c.(*countedConn); ok {
		return known.peer
	}
	return peer.Of(c)
}

type callerKey struct{}

// withCaller notes in the context of a connection's requests which user calls.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, peerOf(c).UID)
}

// caller returns the user whose request it is, or -1.
func caller(ctx context.Context) int { return ctx.Value(callerKey{}).(int) }
