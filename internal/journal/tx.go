package journal

import (
	"context"
	"database/sql"
	"time"
)

// querier is what runs statements: a pool, or the connection of a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// write runs fn in a transaction that is kept if fn returns nil.
//
// It works on the connection rather than through sql.Tx, which takes its
// transaction for over when COMMIT has failed or BEGIN was cancelled, and would
// hand the connection on with the transaction still open.
func (j *Journal) write(ctx context.Context, fn func(tx *sql.Conn) error) error {
	conn, err := j.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	committed := false
	defer func() {
		if !committed {
			// An error means that SQLite had rolled back by itself already, or
			// that nothing had begun.
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := fn(conn); err != nil {
		return err
	}
	// Not to be interrupted: an error must mean that nothing was kept.
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

// collect runs a query and returns what scan made of each row.
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

// affect runs a statement and returns how many rows it changed.
func affect(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	result, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// millis is a time as the tables hold it: milliseconds since 1970, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the time that millis made ms of.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// atMost is a limit as SQL's LIMIT takes it, where 0 means any number.
func atMost(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}
