package journal

import (
	"context"
	"database/sql"
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
	// schema returns the statements that create the tables.
	schema() string
	// foreign advises what to do about tables that another version of this program made.
	foreign() string

	// explain adds the place and an advice to an error of the database. It alone tells errors
	// of the database from faults of our statements, and wraps the former in a
	// *claim.JournalError.
	explain(error) error
	// fault reports whether an error came from the database, and so may have ended a
	// transaction.
	fault(error) bool
}

// engine is the store of an open journal.
type engine interface {
	store
	// reads returns connections that cannot write, and writes the one that does. Both
	// connect on first use.
	reads() (*sql.DB, error)
	writes() (*sql.DB, error)
	// prepare runs before the first transaction. It creates the tables unless made is set.
	prepare(ctx context.Context, j *Journal, made bool) error
	// begin begins a transaction, and commit commits it. If commit fails with an *unsure,
	// fate finds out whether the transaction was kept; it returns nil if so.
	begin(tx *tx) error
	commit(tx *tx) error
	fate(*unsure) error
	// over returns a channel that is closed once this process can save nothing any more; nil
	// if that cannot happen.
	over() <-chan struct{}
	// away returns why the database cannot be reached; nil if it can.
	away() error
	// compact frees unused space.
	compact(ctx context.Context, j *Journal) error
}
