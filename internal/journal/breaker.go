package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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

// open connects.
func (c connector) open(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return session{made.(*stdlib.Conn)}, nil
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

// server returns the connection to the server behind a driver's.
func server(conn any) *pgconn.PgConn { return conn.(session).Conn.Conn().PgConn() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	down, try := c.breaker.enter()
	if down == nil {
		conn, err := c.open(ctx)
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
		conn, err := c.open(context.WithoutCancel(ctx)) // it has its own time limit
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

// pool returns a pool of up to n connections, which connect on first use. The server must begin
// each answer, and go on with it, within limit. If it does not, the read fails, and the breaker
// opens unless mayWait is set, see breaker.fell.
func (p *postgres) pool(n int, limit time.Duration, mayWait bool) *sql.DB {
	config := p.config.Copy()
	config.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		w := &watched{Conn: conn, breaker: &p.breaker, limit: limit, born: p.breaker.age()}
		w.silent = mayWait
		return w, nil
	}
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()[warning] = n
		}
	}
	stale := func(conn *pgx.Conn) bool {
		w, ok := conn.PgConn().Conn().(*watched)
		return ok && w.born != p.breaker.age()
	}
	db := sql.OpenDB(connector{breaker: &p.breaker, Connector: stdlib.GetConnector(*config,
		stdlib.OptionShouldPing(func(_ context.Context, how stdlib.ShouldPingParams) bool {
			return how.IdleDuration > time.Second && !stale(how.Conn)
		}),
		stdlib.OptionResetSession(func(_ context.Context, conn *pgx.Conn) error {
			if stale(conn) {
				return driver.ErrBadConn
			}
			return nil
		}),
	)})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

// watched is a connection whose server has to answer within a limit. The limit applies once the
// server has let the client in; before that the connect timeout does.
type watched struct {
	net.Conn
	breaker *breaker
	limit   time.Duration
	born    int // the breaker's age when it was made

	mu      sync.Mutex
	until   time.Time // the deadline that the connection's user has set
	greeted bool      // the server has let the client in
	waiting bool      // for an answer
	silent  bool      // a silence is not reported to the breaker (again)
}

// silence is the error for a server that did not answer in time.
type silence struct{ limit time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("it did not answer for %v", s.limit) }
func (*silence) Timeout() bool   { return true }
func (*silence) Temporary() bool { return false }

// arm sets the deadline of the next read.
func (w *watched) arm() {
	until := w.until
	if own := time.Now().Add(w.limit); w.waiting && (until.IsZero() || own.Before(until)) {
		until = own
	}
	w.Conn.SetReadDeadline(until)
}

func (w *watched) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	w.arm()
	return w.Conn.SetWriteDeadline(t)
}

func (w *watched) Write(data []byte) (int, error) {
	w.mu.Lock()
	if w.greeted {
		w.waiting = true
		w.arm() // also for a read that is under way
		if w.until.IsZero() {
			w.Conn.SetWriteDeadline(time.Now().Add(w.limit))
		}
	}
	w.mu.Unlock()
	n, err := w.Conn.Write(data)
	return n, w.judge(err)
}

func (w *watched) Read(data []byte) (int, error) {
	w.mu.Lock()
	w.arm()
	w.mu.Unlock()
	n, err := w.Conn.Read(data)
	if n > 0 && ready(data[:n]) {
		w.mu.Lock()
		w.greeted, w.waiting = true, false
		w.mu.Unlock()
	}
	return n, w.judge(err)
}

// ready reports whether data ends with ReadyForQuery, the message that ends every answer.
func ready(data []byte) bool {
	const length = 6
	return len(data) >= length && string(data[len(data)-length:len(data)-1]) == "Z\x00\x00\x00\x05"
}

// judge tells a silent server from a deadline that the connection's user has set.
func (w *watched) judge(err error) error {
	if failed, ok := err.(net.Error); !ok || !failed.Timeout() {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.until.IsZero() && !time.Now().Before(w.until) || !w.greeted {
		return err
	}
	said := &silence{w.limit}
	if !w.silent {
		w.silent = true // the driver still has to end the connection: that is no second silence
		w.breaker.fell(said)
	}
	return said
}
