package journal

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// again is the time between two tries to reach a server that is down.
	again = time.Second
	// glance is how long a caller waits for such a try. A server that is back answers sooner.
	glance = 500 * time.Millisecond
)

// breaker is the circuit breaker before a server. While the server is down, callers that want a
// connection fail at once; one caller a second tries. It is safe for concurrent use.
type breaker struct {
	mu     sync.Mutex
	down   error     // why the server cannot be reached; nil if it may be
	next   time.Time // when it is tried again
	trying bool
	falls  int // how often the server fell silent
}

// away returns why the server cannot be reached; nil if it may be.
func (b *breaker) away() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

// enter returns why the server is down, nil if it is not, and whether the caller should try.
func (b *breaker) enter() (down error, try bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		return nil, true
	}
	try = !b.trying && !time.Now().Before(b.next)
	b.trying = b.trying || try
	return b.down, try
}

// tried notes the result of an attempt to connect.
func (b *breaker) tried(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down, b.next, b.trying = err, time.Now().Add(again), false
}

// fell notes that the server does not answer. Connections made before are not used again.
func (b *breaker) fell(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.falls++
	b.down, b.next = err, time.Now()
}

func (b *breaker) age() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.falls
}

// connector connects when the breaker allows it.
type connector struct {
	driver.Connector
	breaker *breaker
}

// dial connects.
func (c connector) dial(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return session{made.(*stdlib.Conn)}, nil
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	down, try := c.breaker.enter()
	if down == nil {
		conn, err := c.dial(ctx)
		if err == nil || ctx.Err() == nil { // else the caller gave up: that says nothing about the server
			c.breaker.tried(err)
		}
		return conn, err
	}
	if !try {
		return nil, down
	}
	type result struct {
		conn driver.Conn
		err  error
	}
	came := make(chan result)
	ctx, cancel := context.WithTimeout(ctx, glance)
	go func() {
		conn, err := c.dial(context.WithoutCancel(ctx)) // it has its own time limit
		c.breaker.tried(err)
		select {
		case came <- result{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	}()
	defer cancel()
	select {
	case r := <-came:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, down
	}
}

// session is a connection. A statement on it that fails because the connection was cut, by a pooler
// for instance, is tried again by sql.DB, on a fresh connection in the end. Such a statement is a
// whole transaction that may run twice. A sql.Conn, which may be in a transaction, tries nothing
// again.
type session struct{ *stdlib.Conn }

func (s session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.Conn.ExecContext(ctx, query, args)
	return result, wasCut(err)
}

func (s session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.Conn.QueryContext(ctx, query, args)
	return rows, wasCut(err)
}

func wasCut(err error) error {
	if lost(err) {
		return &cut{err}
	}
	return err
}

// cut is an error of a connection that was cut. It also is driver.ErrBadConn.
type cut struct{ error }

func (c *cut) Unwrap() []error { return []error{c.error, driver.ErrBadConn} }

// lost reports whether the connection is gone, so that another one may work.
func lost(err error) bool {
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok {
		return final(failure)
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// final reports whether the server ended the connection with an error. A pooler gives no unlocalized
// severity, and does not localize.
func final(failure *pgconn.PgError) bool {
	severity := cmp.Or(failure.SeverityUnlocalized, failure.Severity)
	return severity == "FATAL" || severity == "PANIC"
}

// server returns the connection to the server behind a driver's.
func server(conn any) *pgconn.PgConn { return conn.(session).Conn.Conn().PgConn() }

// warning is the key of a connection's last warning.
const warning = "warning"

// unconfirmed is the error of a transaction that was committed with a warning: the wait for a standby
// was cut off. A standby that is promoted may lack it.
type unconfirmed struct{ notice *pgconn.Notice }

func (u *unconfirmed) Error() string {
	return fmt.Sprintf("%s (%s)", u.notice.Message, cmp.Or(u.notice.Detail, "committed with a warning"))
}

// warned returns the warning that came on a connection since the last call, as an *unconfirmed.
func warned(c *pgconn.PgConn) error {
	notice, ok := c.CustomData()[warning].(*pgconn.Notice)
	delete(c.CustomData(), warning)
	if ok {
		return &unconfirmed{notice}
	}
	return nil
}

// run runs statements on conn in one round trip. The error is driver.ErrBadConn if the
// connection was lost before anything was sent, and an *unconfirmed if they were run, with a
// warning. (The driver's own test for that,
// pgconn.SafeToRetry, also says yes when something was sent and no answer came.)
func run(conn *sql.Conn, statements string) (results []*pgconn.Result, err error) {
	err = conn.Raw(func(c any) error {
		server := server(c)
		if server.IsClosed() {
			return driver.ErrBadConn
		}
		_ = warned(server) // an earlier one
		var err error
		results, err = server.Exec(context.Background(), statements).ReadAll()
		for _, result := range results {
			if result.Err != nil { // the first failure says more than the final one
				return result.Err
			}
		}
		return cmp.Or(err, warned(server))
	})
	return results, err
}

// watched is a connection whose server has to answer within a limit. pgconn reads and writes only
// for a statement, so an idle connection has no limit.
type watched struct {
	net.Conn
	born int         // the breaker's age when it was made
	fell func(error) // called once when the server is silent

	mu     sync.Mutex
	limit  time.Duration // zero until the server has let the client in: before, the connect timeout applies
	until  time.Time     // pgconn's own deadline, which replaces the limit: it gives up, or ends the connection
	silent error         // set once the server was silent
}

// silence is the error for a server that did not answer in time.
type silence struct{ limit time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("it did not answer for %v", s.limit) }
func (*silence) Timeout() bool   { return true }
func (*silence) Temporary() bool { return false }

// watch sets the limit.
func (w *watched) watch(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
}

func (w *watched) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return w.Conn.SetDeadline(t)
}

func (w *watched) Write(data []byte) (int, error) {
	return w.within(w.Conn.SetWriteDeadline, w.Conn.Write, data)
}

func (w *watched) Read(data []byte) (int, error) {
	return w.within(w.Conn.SetReadDeadline, w.Conn.Read, data)
}

// within reads or writes, for as long as the limit allows.
func (w *watched) within(setDeadline func(time.Time) error, move func([]byte) (int, error), data []byte) (int, error) {
	if err := w.arm(setDeadline); err != nil {
		return 0, err
	}
	n, err := move(data)
	return n, w.judge(err)
}

// arm sets the deadline of a read or write. After a silence the error is that.
func (w *watched) arm(setDeadline func(time.Time) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent != nil || w.limit == 0 || !w.until.IsZero() {
		return w.silent
	}
	return setDeadline(time.Now().Add(w.limit))
}

// judge tells a silent server from a deadline of pgconn's.
func (w *watched) judge(err error) error {
	if failed, ok := err.(net.Error); !ok || !failed.Timeout() {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent == nil && w.limit > 0 && w.until.IsZero() {
		w.silent = &silence{w.limit}
		w.fell(w.silent)
	}
	return cmp.Or(w.silent, err)
}
