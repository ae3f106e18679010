package server

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"

	"dibs/internal/api"
	"dibs/internal/api/peer"
	"dibs/internal/task"
)

// peerOf returns the process at the other end of a connection.
func peerOf(c net.Conn) peer.Peer {
	if known, ok := c.(*countedConn); ok {
		return known.peer
	}
	return peer.Of(c)
}

// Guest is the caller of a request, as the kernel identifies the process that connected, or, for a
// caller from another machine, as the access token says, which the server checks. A door passes it to
// the leader.
type Guest struct {
	peer.Peer
	// User is the user's name; empty if it has none.
	User string `json:"user,omitempty"`
	// Own is set for root, and for the user that the daemon runs as.
	Own bool `json:"own,omitempty"`
	// Remote is set for a caller from another machine, who shows the access token Token.
	Remote bool   `json:"remote,omitempty"`
	Token  string `json:"token,omitempty"`
	// access is what the token allows; nil for a caller of this machine.
	access *api.Access
	// Member is the member that the caller came in by; empty without a cluster.
	Member string `json:"-"`
}

type guestKey struct{}

// welcome puts the caller into the context of a connection's requests.
func welcome(ctx context.Context, c net.Conn, member string) context.Context {
	g := Guest{Peer: peerOf(c), Member: member}
	g.Own = g.UID == 0 || g.UID == os.Getuid()
	if g.UID != peer.Unknown.UID {
		if u, err := user.LookupId(strconv.Itoa(g.UID)); err == nil {
			g.User = u.Username
		}
	}
	return context.WithValue(ctx, guestKey{}, g)
}

// guest returns the caller of a request.
func guest(ctx context.Context) Guest { return ctx.Value(guestKey{}).(Guest) }

// caller returns the user of a request, or -1.
func caller(ctx context.Context) int { return guest(ctx).UID }

// keyedKey marks the idempotency key of a request.
type keyedKey struct{}

// signature returns what the user signs with, as the kernel says, whatever the caller says.
func (g Guest) signature() string {
	name := g.User
	switch {
	case g.UID == peer.Unknown.UID:
		name = "unknown"
	case name == "":
		name = strconv.Itoa(g.UID)
	}
	if g.Member != "" {
		name += "@" + g.Member
	}
	return task.UserSignature(name)
}

type saysKey struct{}

// withProcess puts into the context of a request the process that it claims to come from.
func withProcess(r *http.Request) *http.Request {
	pid, err := strconv.Atoi(r.Header.Get(api.ProcessHeader))
	if err != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), saysKey{}, pid))
}

// sameMachine reports whether process numbers mean the same to the caller as to the daemon at whose
// socket it came in. They do not if the caller's number for itself differs from the kernel's: then
// the socket is forwarded from another machine, or the caller is in a container.
func sameMachine(ctx context.Context) bool {
	says, given := ctx.Value(saysKey{}).(int)
	is := guest(ctx).PID
	return !guest(ctx).Remote && (!given || is < 0 || says == is)
}
