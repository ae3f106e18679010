package journal

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
)

// store is where a journal is stored: what differs between the databases. All databases take
// the same statements; a store says how they get there.
type store interface {
	// String names the place of the journal for people, without a password.
	String() string
	// rewrite translates a statement into the database's dialect.
	rewrite(statement string) string
	// compiles reports whether a connection may keep prepared statements.
	compiles() bool
	// waiting is claim.Waiting if a server may leave a caller without an answer. A file may be slow,
	// but it is there.
	waiting(ctx context.Context) (end func())
	// numbers reports whether the driver tells the number of a new row. Otherwise RETURNING does.
	numbers() bool

	// check returns an error if the journal is damaged or the database is unsuitable.
	check(ctx context.Context, readers *pool) error
	// tables counts the tables in the journal's place, and those of them named meta.
	tables(ctx context.Context, readers *pool) (all, meta int, err error)
	// foreign advises what to do about tables that are not a journal's.
	foreign() string

	// explain adds the place and an advice to an error of the database. It alone tells errors
	// of the database from faults of our statements, and wraps the former in a
	// *claim.JournalError.
	explain(error) error
	// fault reports whether an error came from the database, and so may have ended a
	// transaction.
	fault(error) bool
}

const maxReaders = 4

// retryIn is when to ask again for what could not be stored. It is rough: somebody has to fix
// the cause first.
const retryIn = 5 * time.Second

func unusable(err error, advice string) *claim.JournalError {
	return &claim.JournalError{RetryAfter: retryIn, Err: fmt.Errorf("%w: %s", err, advice)}
}

// querier runs queries: a pool, or the connection of a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
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

// storable replaces what PostgreSQL refuses in texts: zero bytes, and bytes that are not UTF-8.
// Callers may ask for any text; one with such bytes matches nothing that is stored.
func storable(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		v := reflect.ValueOf(arg)
		if data, ok := arg.([]byte); ok && data != nil {
			v = reflect.ValueOf(string(data))
		}
		if v.Kind() == reflect.String {
			out[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return out
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
