// Package client talks to the daemon on its socket, or at its URL, after checking that it is the
// daemon. Refusals are *api.Problem; a daemon that cannot be reached is an *UnreachableError. Only
// Await and Insist repeat requests; other callers may repeat one under the same key.
package client

import (
	"bufio"
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
	"net/http/httptrace"
	"net/url"
	"os"
	"os/user"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/peer"
	"dibs/internal/kit/safefile"
)

// maxAnswer limits an answer's bytes. It is far more than a daemon ever sends.
const maxAnswer = 64 << 20

// Client talks to one daemon. It is safe for concurrent use.
type Client struct {
	name   string
	base   string // begins the addresses of requests
	remote bool   // see At
	http   http.Client

	bearer func(ctx context.Context, refused string) (string, error) // see Remote.Token; nil for none
	ahead  atomic.Int64                                              // see Ahead

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
	c := &Client{name: name, base: "http://dibs"}
	c.use(c.transport(func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }))
	return c
}

// transport returns a transport that connects with dial, see Await.
func (c *Client) transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.connect(ctx, func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, address) })
		},
		DisableCompression: true,
		// net/http may send a request twice if an idle connection breaks just as it is reused.
		DisableKeepAlives: true,
	}
}

// use makes the client send requests with that transport. It follows no redirects.
func (c *Client) use(t http.RoundTripper) {
	c.http = http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Bearer makes the client show an access token, or a JWT, which token returns for each request. The
// error of token is that of the request. Bearer must be called before the first request.
func (c *Client) Bearer(token func(context.Context) (string, error)) {
	c.bearer = func(ctx context.Context, _ string) (string, error) { return token(ctx) }
}

// Remote reports whether the daemon is on another machine: it cannot see the processes of this one.
func (c *Client) Remote() bool { return c.remote }

// Ahead returns how far the daemon's clock was ahead of this machine's at its last answer, to a second
// or so; zero before the first one.
func (c *Client) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

// Restart is how long an agent's request waits for a daemon that may be restarting.
const Restart = 5 * time.Second

// Await makes the client wait for a daemon that is away, as while it restarts: each request tries
// for that long to connect, and a wait that a stopping daemon broke off goes on with the next one.
// It must be called before the first request.
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
		case <-time.After(c.await / awaits):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// awaits is how often Await tries.
const awaits = 20

// waited sends a request and reads its answer into out. See Await for waits that were broken off.
func (c *Client) waited(ctx context.Context, r request, out any) error {
	pause := c.await / awaits
	for tries := awaits; ; tries-- {
		began := time.Now()
		err := c.once(ctx, r, out)
		p, refused := errors.AsType[*api.Problem](err)
		if c.await == 0 || tries == 0 || !refused || p.Code != api.CodeStopping {
			return err
		}
		rest, waits := r.rest(time.Since(began) + pause)
		if !waits {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		r = rest
	}
}

// UnreachableError says that no daemon answered.
type UnreachableError struct {
	Socket string
	// Sent is set if a daemon may have received the request and carried it out.
	Sent bool
	Err  error
	// Advice says what to do about a daemon at a URL; empty for a socket.
	Advice string
}

func (e *UnreachableError) Error() string {
	if e.Sent {
		return fmt.Sprintf("the daemon on %s went away without an answer, and may have done what it was asked to: %v: see dibs status, or ask again if that had a --request-id", e.Socket, e.Err)
	}
	if e.Advice != "" {
		return fmt.Sprintf("the daemon on %s cannot be reached: %v: %s", e.Socket, e.Err, e.Advice)
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

// once sends a request and reads its answer into out.
func (c *Client) once(ctx context.Context, r request, out any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unreachable(ctx, err, true)
	}
	return c.read(resp, data, out)
}

// exchange is send without the check for silence. A request whose token was refused was not carried
// out: it is sent again, once, if there is another token.
func (c *Client) exchange(ctx context.Context, r request) (*http.Response, error) {
	if c.bearer == nil {
		return c.attempt(ctx, r, "")
	}
	token, err := c.bearer(ctx, "")
	if err != nil {
		return nil, err
	}
	resp, err := c.attempt(ctx, r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if other, err := c.bearer(ctx, token); err == nil && other != token {
		resp.Body.Close()
		return c.attempt(ctx, r, other)
	}
	return resp, nil
}

// attempt sends a request once, with a token unless that is empty.
func (c *Client) attempt(ctx context.Context, r request, token string) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("a request for %s: %w", r.path, err)
		}
		body = bytes.NewReader(data)
	}
	var connected atomic.Bool // and verified
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), r.method, c.base+r.path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(api.ProcessHeader, strconv.Itoa(os.Getpid()))
	if token != "" {
		req.Header.Set(api.BearerHeader, bearer+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err, connected.Load())
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.ahead.Store(int64(time.Until(date)))
	}
	return resp, nil
}

// unreachable converts the error of a failed exchange, of which something was sent or not; if ctx
// ended, it returns the cause.
func (c *Client) unreachable(ctx context.Context, err error, sent bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if impostor, ok := errors.AsType[*ImpostorError](err); ok {
		return impostor
	}
	e := &UnreachableError{Socket: c.name, Sent: sent, Err: reason(err)}
	if c.remote && !sent {
		e.Advice, e.Err = diagnose(err)
	}
	return e
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
			if p.Code == api.CodeUnauthorized {
				p.Detail += doubtful(resp.Request.Header.Get(api.BearerHeader), time.Now())
			}
			return &p
		}
	case media == "application/json" && resp.StatusCode < http.StatusMultipleChoices:
		if json.Unmarshal(data, out) == nil {
			return nil
		}
	}
	return fmt.Errorf("what answers on %s is not a dibs daemon that this program understands: %s, %.100q", c.name, resp.Status, data)
}

// request is an HTTP request to the daemon.
type request struct {
	method, path string // with the query
	header       http.Header
	body         any // nil: none
}

// rest returns the request with what is left of its wait; waits is false if it has none. One with a
// key stays as it is, because a key stands for one body.
func (r request) rest(spent time.Duration) (rest request, waits bool) {
	left := func(seconds float64) float64 {
		waits = seconds > 0
		if r.header.Get(api.KeyHeader) != "" {
			return seconds
		}
		return max(0, seconds-spent.Seconds())
	}
	rest = r
	switch body := r.body.(type) {
	case api.ClaimRequest:
		body.WaitSeconds = left(body.WaitSeconds)
		rest.body = body
	case *api.PollRequest:
		if body != nil {
			poll := *body
			poll.WaitSeconds = left(poll.WaitSeconds)
			rest.body = &poll
		}
	case nil:
		path, text, _ := strings.Cut(r.path, "?")
		query, _ := url.ParseQuery(text)
		if wait, err := time.ParseDuration(query.Get("wait")); err == nil {
			query.Set("wait", time.Duration(left(wait.Seconds())*float64(time.Second)).String())
			rest.path = path + "?" + query.Encode()
		}
	}
	return rest, waits
}

// Do calls an operation of the table: an answer, an *api.Problem that the daemon refuses with, or an
// *UnreachableError. A request that is repeated under the same key, which may be empty, gets the same
// answer.
func Do[In, Out any](ctx context.Context, c *Client, op api.Op[In, Out], in In) (Out, error) {
	var out Out
	err := c.do(ctx, newRequest(op, in), &out)
	return out, err
}

// Ack acknowledges triggers of an agent, or, if agent is empty, of any agents.
func (c *Client) Ack(ctx context.Context, agent string, body api.AckRequest, key string) (api.Acked, error) {
	if agent == "" {
		return Do(ctx, c, api.OpAckAny, api.KeyedInput[api.AckRequest]{Key: key, Body: body})
	}
	return Do(ctx, c, api.OpAck, api.AckInput{Name: agent, Key: key, Body: body})
}

// newRequest makes the request of an operation from its input. It leaves out fields that equal
// their default, and zeros without a meaning of their own.
func newRequest[In, Out any](op api.Op[In, Out], in In) request {
	r := request{method: op.Method, path: op.Path, header: make(http.Header)}
	query := make(url.Values)
	parts := reflect.ValueOf(in)
	for i := range parts.NumField() {
		field, value := parts.Type().Field(i), parts.Field(i)
		if field.Name == "Body" {
			if value.Kind() != reflect.Pointer || !value.IsNil() {
				r.body = value.Interface()
			}
			continue
		}
		text := fmt.Sprint(value)
		usual := text == field.Tag.Get("default") || value.IsZero() && !zeroCounts(field)
		if name, ok := field.Tag.Lookup("path"); ok {
			r.path = strings.Replace(r.path, "{"+name+"}", url.PathEscape(text), 1)
		} else if usual || value.Kind() == reflect.Slice && value.Len() == 0 {
			continue
		} else if name, ok := field.Tag.Lookup("header"); ok {
			r.header.Set(name, text)
		} else if name, _, _ := strings.Cut(field.Tag.Get("query"), ","); value.Kind() == reflect.Slice {
			query[name] = value.Interface().([]string)
		} else {
			query.Set(name, text)
		}
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	return r
}

// zeroCounts reports whether a field's zero is a value of its own: a number or a bool whose default
// differs, unless the number has to be above zero.
func zeroCounts(field reflect.StructField) bool {
	if _, ok := field.Tag.Lookup("default"); !ok || field.Type.Kind() == reflect.String {
		return false
	}
	least, err := strconv.Atoi(field.Tag.Get("minimum"))
	return err != nil || least <= 0
}

// soonest is the shortest pause before a request is repeated.
const soonest = time.Second

// Insist makes the client repeat requests that change something, each under its key, while the
// daemon says that its journal cannot be used. It stops after limit, or when ctx ends, and pauses
// as long as the daemon asks for. notify is called once, before the first pause. Insist must be
// called before the first request.
func (c *Client) Insist(limit time.Duration, notify func(*api.Problem)) {
	c.insist, c.insists = limit, notify
}

// do sends a request and reads its answer into out. See Insist for repetitions.
func (c *Client) do(ctx context.Context, r request, out any) error {
	if c.insist == 0 || r.method == http.MethodGet {
		return c.waited(ctx, r, out)
	}
	if r.header.Get(api.KeyHeader) == "" && r.method == http.MethodPost {
		r.header.Set(api.KeyHeader, api.NewKey())
	}
	over := time.Now().Add(c.insist)
	for {
		err := c.waited(ctx, r, out)
		p, refused := errors.AsType[*api.Problem](err)
		if !refused || p.Code != api.CodeJournalUnavailable || ctx.Err() != nil {
			return err
		}
		wait := max(soonest, time.Duration(p.RetryAfter)*time.Second)
		if p.RetryAfter == 0 || time.Now().Add(wait).After(over) {
			return err
		}
		c.insisting.Do(func() { c.insists(p) })
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// askTime is how long a daemon on this machine that seems silent may take to answer the check.
const askTime = 2 * time.Second

// OnSilence makes the client call notify when a request has had no answer for that long, and the
// daemon does not answer another one either: it hangs. notify is called at most once, in its own
// goroutine, and the request goes on waiting. OnSilence must be called before the first request.
func (c *Client) OnSilence(after time.Duration, notify func()) { c.patience, c.silent = after, notify }

// send sends a request. The caller closes the body of the answer.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	if c.silent != nil {
		waiting, answered := context.WithCancel(ctx)
		defer answered()
		go c.listen(waiting)
	}
	return c.exchange(ctx, r)
}

// rarely is the longest pause between two checks.
const rarely = 5 * time.Minute

// listen checks from time to time that the daemon answers, until ctx ends or it does not. The
// pauses grow, since many callers may wait for long.
func (c *Client) listen(ctx context.Context) {
	for wait := c.patience; ; wait = min(2*wait, rarely) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		patience := askTime
		if c.remote {
			patience = connecting
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		resp, err := c.exchange(asking, newRequest(api.OpStatus, struct{}{}))
		silent := errors.Is(asking.Err(), context.DeadlineExceeded)
		cancel()
		if err == nil {
			resp.Body.Close()
		} else if silent && ctx.Err() == nil {
			c.silence.Do(c.silent)
			return
		}
	}
}

// ImpostorError says that the wrong user listens on the socket. Nothing was sent.
type ImpostorError struct {
	Socket string
	UID    int    // the listener's user
	Wanted string // the expected user, if one was named
}

func (e *ImpostorError) Error() string {
	who := safefile.UserName(e.UID)
	if e.Wanted != "" {
		return fmt.Sprintf("user %s listens on %s, and not %s, whom socket_user names: nothing was asked: mend socket_user or DIBS_SOCKET", who, e.Socket, e.Wanted)
	}
	return fmt.Sprintf("user %s listens on %s, where anybody could: nothing was asked: set DIBS_SOCKET to your daemon's socket, or, if that is your daemon's user, DIBS_SOCKET_USER=%d", who, e.Socket, e.UID)
}

// believe returns an error unless the listener's user is the named one, or, with none named, one
// who may have put the socket there. If the kernel does not identify the listener, anybody is
// accepted.
func believe(uid int, socket, named string) error {
	if uid < 0 {
		return nil
	}
	if named != "" {
		wanted, err := userID(named)
		if err != nil {
			return err
		}
		if uid != wanted && uid != 0 { // systemd listens for the daemons it starts
			return &ImpostorError{Socket: socket, UID: uid, Wanted: named}
		}
		return nil
	}
	where := safefile.Resolved{} // root and this user only
	if !strings.HasPrefix(socket, "@") {
		var err error
		where, err = safefile.Resolve(socket)
		if _, unsafe := errors.AsType[*safefile.Unsafe](err); err != nil && !unsafe {
			return err
		}
	}
	if !where.Right(uid) {
		return &ImpostorError{Socket: socket, UID: uid}
	}
	return nil
}

func userID(name string) (int, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(uid), nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("socket_user: %w: name the user that the daemon runs as", err)
	}
	return strconv.Atoi(found.Uid)
}

// maxLine limits the bytes of a line. It is far more than a stream of events ever sends.
const maxLine = 1 << 20

// Events calls each for the events that in selects, in order, until each fails or there are no more.
// With follow, it waits for new events, and returns nil when the daemon stops. next is always the
// value of in.After to continue without a gap. It grows with each event, and also while in selects
// nothing, because the daemon reports its position.
func (c *Client) Events(ctx context.Context, in api.EventsInput, follow bool, each func(api.Event) error) (next int64, err error) {
	next = in.After
	in.Follow = follow
	err = c.stream(ctx, newRequest(api.OpEvents, in), func(id, data string) error {
		if data != "" {
			if err := take(data, each); err != nil {
				return err
			}
		}
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			next = n
		}
		return nil
	})
	return next, err
}

// KeepAlive keeps a claim alive with a connection of its own, until ctx or the stream ends, or heard
// fails. heard is called whenever the daemon shows that the connection lives, every 15 seconds: with
// the claim at first and if something happened to it, else with nil.
func (c *Client) KeepAlive(ctx context.Context, in api.KeepAliveInput, heard func(*api.Claim) error) error {
	return c.stream(ctx, newRequest(api.OpKeepAlive, in), func(_, data string) error {
		if data == "" {
			return heard(nil)
		}
		var of api.Claim
		if err := json.Unmarshal([]byte(data), &of); err != nil {
			return fmt.Errorf("a claim that this program does not understand: %w", err)
		}
		return heard(&of)
	})
}

// stream calls each for each block of a stream, with its id and its data; either may be empty.
func (c *Client) stream(ctx context.Context, r request, each func(id, data string) error) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || media != api.EventStream {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return c.unreachable(ctx, err, true)
		}
		return c.read(resp, data, nil)
	}
	var id, data string // of the current block, which ends with an empty line
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if value != "" { // a comment
				continue
			}
			if err := each(id, data); err != nil {
				return err
			}
			id, data = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return c.unreachable(ctx, err, true)
	}
	return nil
}

// take decodes an event and calls each with it.
func take(data string, each func(api.Event) error) error {
	var e api.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("an event that this program does not understand: %w", err)
	}
	return each(e)
}
