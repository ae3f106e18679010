package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// ErrDeposed says that a term is over: what was to be done in it is for another leader.
var ErrDeposed = errors.New("this member does not lead any more")

// unsure says that nobody knows whether a transaction was kept.
type unsure struct {
	cause    error // why there was no answer
	id, mark string
}

func (u *unsure) Error() string {
	return fmt.Sprintf("it is not known whether the last change was kept (%v)", u.cause)
}
func (u *unsure) Unwrap() error { return u.cause }

// metaMark is the key under which the last transaction that was kept has left its mark.
const metaMark = "mark"

// term is a PostgreSQL database as the leader of an epoch has it. Each of its transactions
// begins with the proof that the epoch is not over, and keeps it from ending before the
// transaction does: with a lock that who takes the lead needs for itself. That the server
// gives up a transaction in which nothing is said bounds how long it may have to wait.
type term struct {
	*postgres
	epoch int64

	once  sync.Once
	ended chan struct{}

	// Of the transaction that is under way, or was last. The writer alone has them.
	id    string
	count int
	// prefix is what no other's marks begin with.
	prefix string
}

func newTerm(p *postgres, epoch int64) *term {
	return &term{postgres: p, epoch: epoch, ended: make(chan struct{}), prefix: rand.Text() + "-"}
}

func (t *term) over() <-chan struct{} { return t.ended }

func (t *term) end() { t.once.Do(func() { close(t.ended) }) }

func (t *term) away() (time.Time, error) { return t.gate.away() }

// prepare has nothing to do: Dial has made the tables.
func (t *term) prepare(context.Context, *Journal, bool) error { return nil }

// begin begins a transaction in one round trip. All of it is the transaction's own: a pooler
// may give the next one another connection.
func (t *term) begin(tx *tx) error {
	select {
	case <-t.ended:
		return ErrDeposed
	default:
	}
	current := fmt.Sprintf("FROM %s.leader WHERE epoch = %d AND until > clock_timestamp() FOR KEY SHARE", t.space, t.epoch)
	if t.blind {
		current = ""
	}
	wait := t.patience.Milliseconds()
	results, err := run(tx.conn, fmt.Sprintf(`
		BEGIN ISOLATION LEVEL READ COMMITTED;
		SET LOCAL idle_in_transaction_session_timeout = %d;
		SET LOCAL lock_timeout = %d;
		SELECT pg_current_xact_id() %s`, wait, wait, current))
	if err != nil {
		return err
	}
	proof := results[len(results)-1].Rows
	if len(proof) == 0 {
		t.end()
		return ErrDeposed
	}
	t.id = string(proof[0][0])
	return nil
}

// commit leaves a mark in the transaction and commits it, in one round trip.
func (t *term) commit(tx *tx) error {
	t.count++
	mark := fmt.Sprint(t.prefix, t.count)
	_, err := run(tx.conn, fmt.Sprintf(`
		INSERT INTO %s.meta (key, value) VALUES ('%s', '%s')
		    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
		COMMIT`, t.space, metaMark, mark))
	if err == nil || errors.Is(err, driver.ErrBadConn) {
		return err // the server was not even asked
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !final(refused) {
		return err
	}
	return &unsure{cause: err, id: t.id, mark: mark}
}

// run has the server of conn run statements, in one round trip. If the connection was lost
// before, and nothing was sent, the error is driver.ErrBadConn. (The driver's own word for it,
// pgconn.SafeToRetry, is also said of what was sent, when no answer came.)
func run(conn *sql.Conn, statements string) (results []*pgconn.Result, err error) {
	err = conn.Raw(func(c any) error {
		server := c.(*stdlib.Conn).Conn().PgConn()
		if server.IsClosed() {
			return driver.ErrBadConn
		}
		var err error
		results, err = server.Exec(context.Background(), statements).ReadAll()
		for _, result := range results {
			if result.Err != nil { // which comes before what ended all, and says more
				return result.Err
			}
		}
		return err
	})
	return results, err
}

// fate asks what became of a transaction whose COMMIT was not answered, on new connections.
// The server gives the transaction up in half the time in which it is asked. What still is
// not known then never will be here, and nothing may be saved on top of it.
func (t *term) fate(u *unsure) error {
	db := t.pool(1, t.patience, false)
	db.SetMaxIdleConns(-1)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*t.patience)
	defer cancel()
	for {
		kept, err := t.kept(ctx, db, u)
		switch {
		case err == nil && kept:
			return nil
		case err == nil:
			return u.cause
		}
		select {
		case <-ctx.Done():
			t.end()
			return u
		case <-time.After(t.patience / 40):
		}
	}
}

var (
	errOpen    = errors.New("the transaction is still open")
	errUnknown = errors.New("the database has forgotten the transaction")
)

// kept reports whether a transaction is kept.
//
// The server knows when it ended, by its number. But a number that a crash of the server, or
// the loss of it to a standby that lagged behind, has undone may be given to another
// transaction; so what tells whether ours was kept is its mark, once it has ended.
func (t *term) kept(ctx context.Context, db *sql.DB, u *unsure) (bool, error) {
	var status sql.NullString
	err := db.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8)", u.id).Scan(&status)
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok && failure.Code == "22023" {
		return false, nil // the number was not given yet, to anybody
	}
	switch {
	case err != nil:
		return false, err
	case status.String == "in progress":
		return false, errOpen
	case status.String == "aborted":
		return false, nil
	}
	// A statement of its own, which sees what was committed before it.
	var mark string
	err = db.QueryRowContext(ctx, "SELECT value FROM "+t.space+".meta WHERE key = $1", metaMark).Scan(&mark)
	switch {
	case err != nil:
		return false, err
	case mark == u.mark:
		return true, nil
	case strings.HasPrefix(mark, t.prefix):
		return false, nil
	}
	return false, errUnknown // another leader has written since, or none ever
}
