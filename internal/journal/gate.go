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
	// again is how long it takes until a server that could not be reached is tried again.
	again = time.Second
	// glance is how long somebody waits for such a try: a server that is back is there by then.
	glance = 500 * time.Millisecond
)

// gate knows whether a server can be reached. While it cannot, who wants a connection is told
// so at once, but for one a second who tries. It is safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	down   error // why the server cannot be reached; nil if it may be
	next   time.Time
	trying bool
	falls  int       // how often the server fell silent
	heard  time.Time // when it last answered anything
}

// answered notes that the server has answered something.
func (g *gate) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heard = time.Now()
}

// away returns why the server cannot be reached, nil if it may be, and when it last answered.
func (g *gate) away() (heard time.Time, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heard, g.down
}

// enter returns why there is no connection to be had, and whether it is time to try.
func (g *gate) enter() (down error, try bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down == nil {
		return nil, true
	}
	try = !g.trying && !time.Now().Before(g.next)
	g.trying = g.trying || try
	return g.down, try
}

// tried notes what came of an attempt to connect.
func (g *gate) tried(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down, g.next, g.trying = err, time.Now().Add(again), false
}

// fell notes that the server does not answer. What was connected before is not trusted any
// more.
func (g *gate) fell(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.falls++
	g.down, g.next = err, time.Now()
}

func (g *gate) age() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.falls
}

// connector makes connections as far as the gate lets it.
type connector struct {
	driver.Connector
	gate *gate
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	down, try := c.gate.enter()
	if down == nil {
		conn, err := c.Connector.Connect(ctx)
		if err == nil || ctx.Err() == nil { // else who asked gave up, which says nothing of the server
			c.gate.tried(err)
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
		conn, err := c.Connector.Connect(context.WithoutCancel(ctx)) // which has its own time
		c.gate.tried(err)
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

// pool returns up to n connections, none of which is made yet. An answer has to begin, and to
// go on, within the time limit. If the server exceeds it and one may not wait, see gate.fell.
func (p *postgres) pool(n int, limit time.Duration, mayWait bool) *sql.DB {
	config := p.config.Copy()
	config.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		w := &watched{Conn: conn, gate: &p.gate, limit: limit, born: p.gate.age()}
		w.silent = mayWait
		return w, nil
	}
	stale := func(conn *pgx.Conn) bool {
		w, ok := conn.PgConn().Conn().(*watched)
		return ok && w.born != p.gate.age()
	}
	db := sql.OpenDB(connector{gate: &p.gate, Connector: stdlib.GetConnector(*config,
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

// watched is a connection whose server has to answer within a time. Until it has let the
// client in, that is left to the time that connecting may take.
type watched struct {
	net.Conn
	gate  *gate
	limit time.Duration
	born  int // the age of the gate then

	mu      sync.Mutex
	until   time.Time // as who uses the connection has set it
	greeted bool
	waiting bool // for an answer
	silent  bool // the gate need not be told that it is
}

// silence is the error of a server that did not answer in time.
type silence struct{ limit time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("it did not answer for %v", s.limit) }
func (*silence) Timeout() bool   { return true }
func (*silence) Temporary() bool { return false }

// arm sets how long the next read may take.
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
		w.gate.answered()
	}
	return n, w.judge(err)
}

// ready reports whether data ends with ReadyForQuery, with which every answer ends.
func ready(data []byte) bool {
	const length = 6
	return len(data) >= length && string(data[len(data)-length:len(data)-1]) == "Z\x00\x00\x00\x05"
}

// judge tells a server that is silent from an end that was set from outside.
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
		w.silent = true // what the driver still does to end the connection is no news
		w.gate.fell(said)
	}
	return said
}
