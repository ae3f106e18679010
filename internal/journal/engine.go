package journal

import (
	"context"
	"database/sql"
	"time"
)

// store is the database that a journal lies in, as far as databases differ. Statements are
// written so that all take them; what stands here is how they are brought there.
type store interface {
	// String is where the journal lies, to be shown: without a password.
	String() string
	// rewrite makes a statement of ours one of the database's own.
	rewrite(statement string) string
	// compiles reports whether a connection may keep statements that were compiled.
	compiles() bool

	// check returns an error if the journal is damaged, or the database is none that will do.
	check(ctx context.Context, readers *pool) error
	// tables is how many tables there are where the journal is to be, and how many of them
	// have the name meta.
	tables(ctx context.Context, readers *pool) (all, meta int, err error)
	// schema is the statements that make the tables.
	schema() string
	// foreign says what to do about tables that another version of this program made.
	foreign() string

	// explain adds to an error of the database's where it lies and what to do about it. It
	// is the one place that decides which errors are those of the database rather than
	// faults of a statement, and so ours; the former it makes a *claim.JournalError.
	explain(error) error
	// fault reports whether an error is the database's, and may have ended a transaction.
	fault(error) bool
}

// engine is a store with what an open journal needs of it.
type engine interface {
	store
	// reads returns connections that cannot write, and writes the one that does. None is
	// made before it is used.
	reads() (*sql.DB, error)
	writes() (*sql.DB, error)
	// prepare does what comes before the first transaction, and makes the tables if they
	// are not made.
	prepare(ctx context.Context, j *Journal, made bool) error
	// begin begins a transaction, and commit ends it, to be kept. If commit fails with an
	// *unsure, nobody knows whether it is kept until fate has found out: nil if it is.
	begin(tx *tx) error
	commit(tx *tx) error
	fate(*unsure) error
	// over is closed when this process can save nothing any more; nil where that is never.
	over() <-chan struct{}
	// away returns since when nothing here can be asked, and why; a nil error if it can.
	away() (since time.Time, why error)
	// compact gives room back that nothing needs any more.
	compact(ctx context.Context, j *Journal) error
}
