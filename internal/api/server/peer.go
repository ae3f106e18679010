package server

import (
	"context"
	"net"
	"net/http"
	"os/user"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/api/peer"
	"dibs/internal/task"
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

// signature is who signs what is done in the name of agent: nobody else if there is one,
// and else the user whose request it is, as the kernel says, whatever the caller says.
func signature(ctx context.Context, agent string) string {
	uid := caller(ctx)
	switch {
	case agent != "":
		return ""
	case uid == peer.Unknown.UID:
		return task.UserSignature("unknown")
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return task.UserSignature(u.Username)
	}
	return task.UserSignature(strconv.Itoa(uid))
}

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
