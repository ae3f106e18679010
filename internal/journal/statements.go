package journal

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/outbox"
)

// querier runs queries: a pool, or the connection of a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tx is the writing connection during a transaction. It prepares each statement once.
// Its methods ignore their contexts: a transaction that has begun is not interrupted.
type tx struct {
	store    store
	conn     *sql.Conn
	prepared map[string]*sql.Stmt                  // by query; unused if the store does not compile
	changed  bool                                  // a statement changed something since this was set to false
	stored   []Stored                              // facts stored by the transaction so far
	notices  map[outbox.Kind]func(claim.Fact) bool // see SetReceivers
	lost     Span                                  // see Journal.Lost
}

// statement is a query ready to run: prepared, or sent anew each time.
type statement interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, args ...any) *sql.Row
}

// sent is a statement that is sent anew each time.
type sent struct {
	conn interface {
		querier
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
	query string
}

func (s sent) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	return s.conn.ExecContext(ctx, s.query, storable(args)...)
}

func (s sent) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, storable(args)...)
}

func (s sent) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	return s.conn.QueryRowContext(ctx, s.query, storable(args)...)
}

// statement returns the query as a statement.
func (t *tx) statement(query string) (statement, error) {
	if !t.store.compiles() {
		return sent{t.conn, t.store.rewrite(query)}, nil
	}
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), t.store.rewrite(query))
	if err == nil {
		t.prepared[query] = s
	}
	return s, err
}

func (t *tx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return nil, err
	}
	n, err := result.RowsAffected()
	t.changed = t.changed || n > 0
	return result, err
}

func (t *tx) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

func (t *tx) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	s, err := t.statement(query)
	if err != nil { // running it again gives the caller the same error
		return t.conn.QueryRowContext(context.Background(), query, args...)
	}
	return s.QueryRowContext(context.Background(), args...)
}

// insert runs an INSERT into a table whose rows have a number, seq, and returns that of the new row.
func (t *tx) insert(ctx context.Context, query string, args ...any) (seq int64, err error) {
	if t.store.numbers() {
		result, err := t.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.LastInsertId()
	}
	t.changed = true // perhaps
	err = t.QueryRowContext(ctx, query+" RETURNING seq", args...).Scan(&seq)
	return seq, err
}

// control runs a statement that begins or ends a transaction or a part of one.
func (t *tx) control(statement string) error {
	_, err := t.ExecContext(context.Background(), statement)
	return err
}

// close closes the prepared statements, and gives the connection back.
func (t *tx) close() error {
	var errs []error
	for _, s := range t.prepared {
		errs = append(errs, s.Close())
	}
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) { // it may have been cut
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// script runs several statements, without preparing them.
func (t *tx) script(statements string) error {
	_, err := t.conn.ExecContext(context.Background(), statements)
	return err
}

// pool is a pool of reading connections. It prepares each statement once on each of them.
type pool struct {
	*sql.DB
	store    store
	prepared sync.Map // of *sql.Stmt by query, closed with the connections
}

func (p *pool) statement(ctx context.Context, query string) (statement, error) {
	if !p.store.compiles() {
		return sent{p.DB, p.store.rewrite(query)}, nil
	}
	if s, ok := p.prepared.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := p.PrepareContext(ctx, p.store.rewrite(query))
	if err != nil {
		return nil, err
	}
	if first, found := p.prepared.LoadOrStore(query, s); found {
		s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	defer p.store.waiting(ctx)()
	s, err := p.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (p *pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	defer p.store.waiting(ctx)()
	s, err := p.statement(ctx, query)
	if err != nil { // running it again gives the caller the same error
		return p.DB.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// collect runs a query and returns the result of scan for each row.
func collect[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// scanner is one row, of *sql.Rows or *sql.Row.
type scanner interface{ Scan(dest ...any) error }

func scanString(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// affect runs a statement and returns the number of rows changed.
func affect(ctx context.Context, tx *tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// millis converts a time to the tables' form: milliseconds since 1970, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the inverse of millis.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// upTo ends a SELECT of at most so many rows, see atMost. SQLite would compile the statement again
// each time that it runs, to plan for the value, if the parameter stood there alone.
const upTo = " LIMIT CAST(? AS BIGINT)"

// atMost converts a limit, where 0 means no limit, for SQL's LIMIT.
func atMost(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}

// flag converts a bool to the tables' form.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}
