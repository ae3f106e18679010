package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/peer"

	"golang.org/x/sys/unix"
)

// Front accepts the callers of this machine. It identifies them, limits their number, and passes
// their requests to a handler.
type Front struct {
	http   http.Server
	log    *slog.Logger
	listed atomic.Pointer[[]int]
	// stop cancels the requests in progress.
	stop context.CancelCauseFunc
}

// FrontOptions configure a Front.
type FrontOptions struct {
	// Member is this member's name in a cluster; empty without one.
	Member string
	Log    *slog.Logger
}

// NewFront returns a front whose requests h answers.
func NewFront(h http.Handler, o FrontOptions) *Front {
	base, stop := context.WithCancelCause(context.Background())
	f := &Front{log: o.Log, http: plain(h, o.Log), stop: stop}
	f.SetListed(nil)
	f.http.BaseContext = func(net.Listener) context.Context { return base }
	f.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return welcome(ctx, c, o.Member) }
	return f
}

// SetListed sets the users that the configuration names, each once. Some connections are kept free
// for each. It may be called at any time.
func (f *Front) SetListed(uids []int) { f.listed.Store(&uids) }

// plain returns an HTTP server with the limits common to all servers here. It has no write timeout,
// because a request for a claim may wait for api.MaxWait; observedWriter limits each write instead.
func plain(h http.Handler, log *slog.Logger) http.Server {
	return http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve answers requests on the listener until Shutdown. It closes the listener.
func (f *Front) Serve(l net.Listener) error {
	return ended(f.http.Serve(limit(l, maxConns, f.log, &f.listed)))
}

// ended returns the error of a server, or nil if it was shut down.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown accepts no more callers, and waits for the requests in progress until ctx ends. It then
// answers the rest with a problem.
func (f *Front) Shutdown(ctx context.Context) error {
	err := f.http.Shutdown(ctx)
	f.stop(errStopping)
	if err == nil {
		return nil
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if f.http.Shutdown(flush) != nil {
		f.http.Close()
	}
	return err
}

const (
	// maxConns is the most connections at a time of a listener, and maxPeers of that for the other
	// members, whose callers each use one.
	maxConns = 512
	maxPeers = 8 * maxConns
	// minConns are taken however few files this process may open, and spareFiles of those are for
	// other things than connections. The rest is shared by the listeners and by what their callers
	// cause, such as connections to the leader.
	minConns   = 16
	spareFiles = 128
	fileShares = 4
	// maxLeaving is how many rejected callers at a time get an explanation.
	maxLeaving = 16
	// leaveTime limits how long that takes.
	leaveTime = time.Second
	// warnEvery is the shortest time between two warnings of rejected callers.
	warnEvery = time.Minute
)

// affordable returns how many of the most connections that a listener takes this process can have
// at a time. An agent that waits for a task uses one.
func affordable(most int) int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur > spareFiles+fileShares*maxPeers {
		return most
	}
	return min(most, max(minConns, (int(files.Cur)-spareFiles)/fileShares))
}

// ofOther limits the connections of a user other than the daemon's own, so that nobody can keep the
// others out.
func (l *limitedListener) ofOther() int { return l.most / 4 }

// shares returns how many connections are kept free for the daemon's own user, for each user that
// Front.SetListed names, and for all of these at most. They get in however many others come.
func (l *limitedListener) shares() (own, listed, all int) { return l.most / 8, l.most / 32, l.most / 2 }

// limitedListener accepts a limited number of connections at a time, and rejects further callers:
// if they waited, nobody could ask anything.
type limitedListener struct {
	net.Listener
	most    int
	log     *slog.Logger
	own     int // this process's user
	listed  *atomic.Pointer[[]int]
	refusal []byte
	leaving chan struct{}

	// yields makes connections that owe a request give way to new ones.
	yields bool

	mu     sync.Mutex
	total  int
	of     map[int]int    // by user
	warned time.Time      // when callers were last rejected, and that was logged
	owing  []*countedConn // those that owe a request, the oldest debt first
}

// limit limits the connections of a listener to what this process can afford of the most. Some are
// kept free for the listed users.
func limit(l net.Listener, most int, log *slog.Logger, listed *atomic.Pointer[[]int]) *limitedListener {
	return &limitedListener{
		Listener: l, most: affordable(most), log: log, own: os.Getuid(), listed: listed, refusal: refusal(),
		leaving: make(chan struct{}, maxLeaving), of: make(map[int]int),
	}
}

// Accept waits for the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &countedConn{Conn: conn, peer: peerOf(conn), of: l}
		c.leave = sync.OnceFunc(func() { l.leave(c) })
		entered := l.enter(c.peer.UID)
		for !entered && l.yield() {
			entered = l.enter(c.peer.UID)
		}
		if entered {
			l.owes(c, l.yields)
			return c, nil
		}
		l.turnAway(conn)
	}
}

// strangers returns what a server is to serve for a listener that anybody may be able to reach. At
// the limit, the connection that has owed a request longest gives way: one that sends next to
// nothing shuts nobody out. A handler calls whole once it has all of the request, or knows whose it is.
// secure encrypts the connections; nil for none. The server does not serve yet.
func strangers(s *http.Server, l net.Listener, secure func(net.Listener) net.Listener, log *slog.Logger) net.Listener {
	limited := limit(l, maxConns, log, nil)
	limited.yields = true
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle { // it owes the next one
			owes(c, true)
		}
	}
	if secure == nil {
		return limited
	}
	limited.refusal = nil // which would be in plain text
	return secure(limited)
}

// owes is countedConn.of.owes for a connection that may be encrypted, or not be counted.
func owes(c net.Conn, debt bool) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if c, ok := c.(*countedConn); ok {
		c.of.owes(c, debt)
	}
}

type connKey struct{}

// whole says that a request of a stranger is there: its connection gives way to none until it is
// answered.
func whole(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		owes(c, false)
	}
}

// owes notes that a connection owes a request from now on, or does no longer.
func (l *limitedListener) owes(c *countedConn, owes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owing = slices.DeleteFunc(l.owing, func(other *countedConn) bool { return other == c })
	if owes && !c.left {
		l.owing = append(l.owing, c)
	}
}

// yield ends the connection that has owed a request longest. It reports whether there was one.
func (l *limitedListener) yield() bool {
	l.mu.Lock()
	var oldest *countedConn
	if len(l.owing) > 0 {
		oldest = l.owing[0]
	}
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	oldest.Close()
	return true
}

func (l *limitedListener) enter(uid int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := uid != l.own && uid != peer.Unknown.UID
	if l.total+l.keptBack(uid) >= l.most || other && l.of[uid] >= l.ofOther() {
		if now := time.Now(); l.warned.IsZero() || now.Sub(l.warned) >= warnEvery {
			l.warned = now
			l.log.Warn("too many connections: callers are turned away", "connections", l.total, "uid", uid, "of_uid", l.of[uid])
		}
		return false
	}
	l.total++
	l.of[uid]++
	return true
}

// keptBack returns how many unused connections a user must leave to others. Where users are
// unknown, it is none.
func (l *limitedListener) keptBack(from int) int {
	if from == peer.Unknown.UID {
		return 0
	}
	ownShare, listedShare, maxShares := l.shares()
	if from == l.own && l.of[from] < ownShare {
		return 0 // it uses its own share
	}
	kept := 0
	if from != l.own {
		kept = max(0, ownShare-l.of[l.own])
	}
	listed := slices.DeleteFunc(slices.Clone(*l.listed.Load()), func(uid int) bool { return uid == l.own })
	if len(listed) == 0 {
		return kept
	}
	share := min(listedShare, (maxShares-ownShare)/len(listed))
	if slices.Contains(listed, from) && l.of[from] < share {
		return 0
	}
	for _, uid := range listed {
		if uid != from {
			kept += max(0, share-l.of[uid])
		}
	}
	return kept
}

func (l *limitedListener) leave(c *countedConn) {
	defer l.owes(c, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	c.left = true
	l.total--
	if l.of[c.peer.UID]--; l.of[c.peer.UID] == 0 {
		delete(l.of, c.peer.UID)
	}
}

// turnAway answers any request with the refusal, and closes the connection.
func (l *limitedListener) turnAway(conn net.Conn) {
	if l.refusal == nil {
		conn.Close()
		return
	}
	select {
	case l.leaving <- struct{}{}:
	default:
		conn.Close()
		return
	}
	go func() {
		defer func() { conn.Close(); <-l.leaving }()
		conn.SetDeadline(time.Now().Add(leaveTime))
		// Clients ignore an answer that comes before their request.
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return
		}
		conn.Write(l.refusal)
		closeWrite(conn)
		// Closing with unread data would break the connection before the answer is seen.
		io.CopyN(io.Discard, conn, maxHeader+maxBody)
	}()
}

// refusal returns the answer to rejected callers, as sent over the wire.
func refusal() []byte {
	p := api.NewProblem(api.CodeBusy, "the daemon has as many connections as it takes: ask again in a moment")
	p.RetryIn(time.Second)
	var body, answer bytes.Buffer
	if err := encode(&body, p); err != nil {
		panic(err) // constants only
	}
	fmt.Fprintf(&answer, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
	header := problemHeader(p)
	header.Set("Content-Type", api.ProblemType)
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Connection", "close")
	header.Write(&answer)
	answer.WriteString("\r\n")
	body.WriteTo(&answer)
	return answer.Bytes()
}

// countedConn is an accepted connection.
type countedConn struct {
	net.Conn
	peer  peer.Peer
	of    *limitedListener
	leave func()
	left  bool // guarded by of.mu
}

// Close makes room for another connection.
func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends the answer before the connection is closed.
func (c *countedConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the writing side of a connection, if it has one.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
