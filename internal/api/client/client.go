// Package client talks to the daemon on its socket, after checking that it is the daemon. Refusals
// are *api.Problem; a daemon that cannot be reached is an *UnreachableError. Only Insist repeats
// requests; other callers may repeat one under the same key.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/peer"
)

// maxAnswer limits an answer's bytes. It is far more than a daemon ever sends.
const maxAnswer = 64 << 20

// Client talks to one daemon. It is safe for concurrent use.
type Client struct {
	name string
	http http.Client

	patience time.Duration // see OnSilence
	silent   func()
	silence  sync.Once

	await     time.Duration // see Await
	insist    time.Duration // see Insist
	insists   func(*api.Problem)
	insisting sync.Once
}

// New returns a client of the daemon on that socket. It does not trust a listener that another user
// could have put there, see ImpostorError.
func New(socket string) *Client { return Of(socket, "") }

// Of is New for the daemon of a user, given by name or number, wherever the socket is; root is
// always accepted. With an empty user it is New.
func Of(socket, user string) *Client { return Either(socket, nil, user) }

// Either is Of, and where nobody listens on the socket, for the daemon on another one, which is
// asked for each time; it may be empty.
func Either(socket string, other func() string, user string) *Client {
	var d net.Dialer
	return Over(socket, func(ctx context.Context) (net.Conn, error) {
		at := socket
		conn, err := d.DialContext(ctx, "unix", at)
		if err != nil && other != nil {
			if at = other(); at != "" && at != socket {
				if found, oerr := d.DialContext(ctx, "unix", at); oerr == nil {
					conn, err = found, nil
				}
			}
		}
		if err != nil {
			return nil, err
		}
		if err := believe(peer.Of(conn).UID, at, user); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	})
}

// Over returns a client that connects with dial; errors use name.
func Over(name string, dial func(context.Context) (net.Conn, error)) *Client {
	c := &Client{name: name}
	c.http = http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := c.connect(ctx, dial)
				if err != nil {
					return nil, &dialError{err}
				}
				return conn, nil
			},
			DisableCompression: true,
			// net/http may send a request twice if an idle connection breaks just as it is reused.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Await makes the client wait for a daemon that is away, as while it restarts: each request tries
// for that long to connect. It must be called before the first request.
func (c *Client) Await(limit time.Duration) { c.await = limit }

// connect dials, see Await. A refusal that waiting does not end is returned at once.
func (c *Client) connect(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	for began := time.Now(); ; {
		conn, err := dial(ctx)
		_, impostor := errors.AsType[*ImpostorError](err)
		if err == nil || impostor || errors.Is(err, fs.ErrPermission) || time.Since(began) >= c.await {
			return conn, err
		}
		select {
		case <-time.After(c.await / 20):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// UnreachableError says that no daemon answered.
type UnreachableError struct {
	Socket string
	// Sent is set if a daemon may have received the request and carried it out.
	Sent bool
	Err  error
}

func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("the daemon on %s went away without an answer, and may have done what it was asked to: %v: see dibs status, or ask again if that had a --request-id", e.Socket, e.Err)
	}
	if e.Sandboxed() {
		return fmt.Sprintf("the daemon on %s cannot be asked: %v: a sandbox keeps this process from its socket: use the tools of dibs mcp, which run outside of it, or have a person allow the socket (docs/clients.md, In a sandbox)", e.Socket, e.Err)
	}
	if errors.Is(e.Err, fs.ErrPermission) {
		return fmt.Sprintf("the daemon on %s cannot be reached: %v: the socket belongs to another user: ask for a place in its socket_group, or set DIBS_SOCKET", e.Socket, e.Err)
	}
	return fmt.Sprintf("no daemon can be reached on %s: %v: start it with: dibs serve", e.Socket, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Sandboxed reports whether a sandbox around this process refuses its sockets. That says nothing
// about the daemon. Permissions of files, such as those of another user's socket, give EACCES.
func (e *UnreachableError) Sandboxed() bool { return !e.Sent && errors.Is(e.Err, syscall.EPERM) }

// dialError marks a failure to connect, as opposed to a later one.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// once sends a request and reads its answer into out.
func (c *Client) once(ctx context.Context, r request, out any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	return c.read(resp, data, out)
}

// exchange is send without the check for silence.
func (c *Client) exchange(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("a request for %s: %w", r.path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "http://dibs"+r.path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(api.ProcessHeader, strconv.Itoa(os.Getpid()))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return resp, nil
}

// unreachable converts the error of a failed exchange; if ctx ended, it returns the cause.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if impostor, ok := errors.AsType[*ImpostorError](err); ok {
		return impostor
	}
	if dial, ok := errors.AsType[*dialError](err); ok {
		return &UnreachableError{Socket: c.name, Err: reason(dial.err)}
	}
	return &UnreachableError{Socket: c.name, Sent: true, Err: reason(err)}
}

// reason strips from a network error what the error around it says already.
func reason(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if outer, ok := errors.AsType[*net.OpError](err); ok {
		err = outer.Err
	}
	if outer, ok := errors.AsType[*os.SyscallError](err); ok {
		err = outer.Err
	}
	return err
}

// read reads an answer: a value of package api, or a problem.
func (c *Client) read(resp *http.Response, data []byte, out any) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case media == api.ProblemType:
		var p api.Problem
		if err := json.Unmarshal(data, &p); err == nil && p.Code != "" {
			return &p
		}
	case media == "application/json" && resp.StatusCode < http.StatusMultipleChoices:
		if json.Unmarshal(data, out) == nil {
			return nil
		}
	}
	return fmt.Errorf("what answers on %s is not a dibs daemon that this program understands: %s, %.100q", c.name, resp.Status, data)
}
