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

// ErrDeposed says that the term is over: another member may lead.
var ErrDeposed = errors.New("this member does not lead any more")

// unsure is the error of a COMMIT without an answer: the transaction may have been kept or not.
type unsure struct {
	cause     error // why there was no answer
	id, stamp string
}

func (u *unsure) Error() string {
	return fmt.Sprintf("it is not known whether the last change was kept (%v)", u.cause)
}
func (u *unsure) Unwrap() error { return u.cause }

// metaStamp is the key of the stamp that each transaction leaves.
const metaStamp = "mark"

// term is a PostgreSQL database in the hands of the leader of an epoch. Each transaction first
// checks that the term is not over, and locks the leader's row, so that nobody else can take the
// lead before the transaction ends. The wait for that is bounded: the server aborts idle
// transactions.
type term struct {
	*postgres
	epoch int64

	once  sync.Once
	ended chan struct{}

	// id and count are those of the current transaction, or else the last. Only the writer uses
	// them.
	id    string
	count int
	// prefix begins the stamps of this term, and no others.
	prefix string
}

func newTerm(p *postgres, epoch int64) *term {
	return &term{postgres: p, epoch: epoch, ended: make(chan struct{}), prefix: rand.Text() + "-"}
}

func (t *term) over() <-chan struct{} { return t.ended }

func (t *term) end() { t.once.Do(func() { close(t.ended) }) }

func (t *term) away() (time.Time, error) { return t.breaker.away() }

// prepare does nothing: Dial has created the tables.
func (t *term) prepare(context.Context, *Journal, bool) error { return nil }

// begin begins a transaction in one round trip. All settings are local to the transaction: a
// pooler may run the next one on another connection.
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

// commit stamps the transaction and commits it, in one round trip.
func (t *term) commit(tx *tx) error {
	t.count++
	stamp := fmt.Sprint(t.prefix, t.count)
	_, err := run(tx.conn, fmt.Sprintf(`
		INSERT INTO %s.meta (key, value) VALUES ('%s', '%s')
		    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
		COMMIT`, t.space, metaStamp, stamp))
	if err == nil || errors.Is(err, driver.ErrBadConn) {
		return err // nothing was sent
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !final(refused) {
		return err
	}
	return &unsure{cause: err, id: t.id, stamp: stamp}
}

// run runs statements on conn in one round trip. The error is driver.ErrBadConn if the
// connection was lost before anything was sent. (The driver's own test for that,
// pgconn.SafeToRetry, also says yes when something was sent and no answer came.)
func run(conn *sql.Conn, statements string) (results []*pgconn.Result, err error) {
	err = conn.Raw(func(c any) error {
		server := c.(*stdlib.Conn).Conn().PgConn()
		if server.IsClosed() {
			return driver.ErrBadConn
		}
		var err error
		results, err = server.Exec(context.Background(), statements).ReadAll()
		for _, result := range results {
			if result.Err != nil { // the first failure says more than the final one
				return result.Err
			}
		}
		return err
	})
	return results, err
}

// fate finds out, on new connections, what became of a transaction whose COMMIT got no answer.
// It asks for twice as long as the server keeps an idle transaction open. If the fate is still
// unknown then, the term ends: nothing may be saved on top of it.
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

// kept reports whether a transaction was kept.
//
// The server says by the transaction's number whether it has ended. But numbers can be used
// again after a crash, or after a failover to a standby that lagged behind. So once it has
// ended, its stamp tells whether it was kept.
func (t *term) kept(ctx context.Context, db *sql.DB, u *unsure) (bool, error) {
	var status sql.NullString
	err := db.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8)", u.id).Scan(&status)
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok && failure.Code == "22023" {
		return false, nil // the server has not used this number yet
	}
	switch {
	case err != nil:
		return false, err
	case status.String == "in progress":
		return false, errOpen
	case status.String == "aborted":
		return false, nil
	}
	// A statement of its own, so that it sees what was committed before.
	var stamp string
	err = db.QueryRowContext(ctx, "SELECT value FROM "+t.space+".meta WHERE key = $1", metaStamp).Scan(&stamp)
	switch {
	case err != nil:
		return false, err
	case stamp == u.stamp:
		return true, nil
	case strings.HasPrefix(stamp, t.prefix):
		return false, nil
	}
	return false, errUnknown // another leader has written since, or nobody ever has
}
