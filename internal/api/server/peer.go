package server

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"dibs/internal/api"
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

// withCaller notes in the context of a connection's requests who calls.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, callerKey{}, peerOf(c))
}

// caller returns the user whose request it is, or -1.
func caller(ctx context.Context) int { return ctx.Value(callerKey{}).(peer.Peer).UID }

type saysKey struct{}

// withProcess notes in the context of a request which process it says that it comes from.
func withProcess(r *http.Request) *http.Request {
	pid, err := strconv.Atoi(r.Header.Get(api.ProcessHeader))
	if err != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), saysKey{}, pid))
}

// sameMachine reports whether the numbers of processes mean the same to the caller as they do
// here. They do not if the caller has another number than the process that connected has here:
// the socket is forwarded from another machine, or the caller is in a container.
func sameMachine(ctx context.Context) bool {
	says, said := ctx.Value(saysKey{}).(int)
	is := ctx.Value(callerKey{}).(peer.Peer).PID
	return !said || is < 0 || says == is
}
