package journal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// synchronous is an expression that makes the commit of its transaction synchronous, whatever the
// role's settings say, and never less so than the database's.
const synchronous = `set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply' OR EXISTS (
	SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
	 WHERE s.setrole = 0 AND d.datname = current_database() AND 'synchronous_commit=remote_apply' = ANY(s.setconfig))
	THEN 'remote_apply' ELSE 'on' END, true)`

// leader is a PostgreSQL database in the hands of the leader of a term. Each transaction first
// checks that the term is not over and that the database has all of its transactions, and locks
// the leader's row, so that nobody else can take the lead before the transaction ends. The wait
// for that is bounded: the server aborts idle transactions.
type leader struct {
	*postgres
	Term

	once  sync.Once
	ended chan struct{}

	// id is the server's number for the current transaction, or else the last, and last counts
	// those of the term that were kept. Only the writer uses them.
	id   string
	last int64
}

func newLeader(p *postgres, t Term) *leader {
	return &leader{postgres: p, Term: t, ended: make(chan struct{})}
}

// row is a condition on the row of the term, in the tables leader and terms.
func (t *leader) row() string { return fmt.Sprintf("epoch = %d AND id = '%s'", t.Epoch, t.ID) }

func (t *leader) over() <-chan struct{} { return t.ended }

func (t *leader) end() { t.once.Do(func() { close(t.ended) }) }

func (t *leader) away() error { return t.breaker.away() }

// prepare reads how many transactions the term has. Dial has created the tables, or Lead has carried them over.
func (t *leader) prepare(ctx context.Context, _ *writer, readers *pool, _ int) (Span, error) {
	var from, until sql.NullInt64
	var now int64
	err := readers.DB.QueryRowContext(ctx, fmt.Sprintf("SELECT last, %s FROM %s.leadership JOIN %[2]s.terms USING (epoch, id) WHERE %[3]s", spanned, t.space, t.row())).
		Scan(&t.last, &from, &until, &now)
	if errors.Is(err, sql.ErrNoRows) {
		return Span{}, ErrDeposed
	}
	return scanSpan(from, until, now), err
}

// begin begins a transaction in one round trip. All settings are local to the transaction: a
// pooler may run the next one on another connection.
func (t *leader) begin(tx *tx) error {
	select {
	case <-t.ended:
		return ErrDeposed
	default:
	}
	current := fmt.Sprintf("FROM %s.leadership JOIN %[1]s.terms USING (epoch, id) WHERE %[2]s AND last = %[3]d AND until > clock_timestamp() FOR KEY SHARE OF leadership",
		t.space, t.row(), t.last)
	if t.blind {
		current = ""
	}
	wait := t.patience.Milliseconds()
	results, err := run(tx.conn, fmt.Sprintf(`
		BEGIN ISOLATION LEVEL READ COMMITTED;
		SET LOCAL idle_in_transaction_session_timeout = %d;
		SET LOCAL lock_timeout = %d;
		SELECT pg_current_xact_id(), %s %s`, wait, wait, synchronous, current))
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

// commit numbers the transaction and commits it, in one round trip.
func (t *leader) commit(tx *tx) error {
	number := t.last + 1
	results, err := run(tx.conn, fmt.Sprintf("UPDATE %s.terms SET last = %d, at = clock_timestamp() WHERE %s RETURNING %s; COMMIT", t.space, number, t.row(), micros("at")))
	if err == nil {
		t.note(number, results[0].Rows)
	}
	if err == nil || errors.Is(err, driver.ErrBadConn) {
		return err // nothing was sent
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !final(refused) {
		return err
	}
	return &unsure{cause: err, id: t.id, number: number}
}

// note notes that the transaction of that number was kept. The first value of rows is when it was
// made.
func (t *leader) note(number int64, rows [][][]byte) {
	t.last = number
	k := known{Term: t.Term, last: number}
	if len(rows) > 0 {
		k.at, _ = strconv.ParseInt(string(rows[0][0]), 10, 64)
	}
	t.memory.note(k)
}

// fate finds out, on new connections, what became of a transaction whose COMMIT got no answer, or a
// warning. One that was kept also has to be confirmed: a wait for a standby may have been cut off.
// fate asks for twice as long as the server keeps an idle transaction open. If the fate is still
// unknown then, the term ends: nothing may be saved on top of it.
func (t *leader) fate(u *unsure) error {
	db := t.pool(1, t.patience, false)
	db.SetMaxIdleConns(-1)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*t.patience)
	defer cancel()
	for {
		kept, err := t.isKept(ctx, db, u)
		if err == nil && kept {
			err = t.confirm(ctx, db)
		}
		switch {
		case err == nil && kept:
			t.note(u.number, nil)
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
	errUnknown = errors.New("the database has forgotten this term, or a part of it")
)

// confirm commits something without a warning. A standby that has it also has all that was committed
// before.
func (t *leader) confirm(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = run(conn, fmt.Sprintf("BEGIN; SELECT %s, pg_current_xact_id(); UPDATE %s.terms SET last = last WHERE %s; COMMIT", synchronous, t.space, t.row()))
	return err
}

// isKept reports whether a transaction was kept.
//
// The server says by the transaction's number whether it has ended. But numbers can be used
// again after a crash, or after a failover to a standby that lagged behind. So once it has
// ended, the term's row tells whether it was kept.
func (t *leader) isKept(ctx context.Context, db *sql.DB, u *unsure) (bool, error) {
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
	var last int64
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT last FROM %s.terms WHERE %s", t.space, t.row())).Scan(&last)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return false, err
	case err == nil && last == u.number:
		return true, nil
	case err == nil && last == u.number-1:
		return false, nil
	}
	return false, errUnknown
}
