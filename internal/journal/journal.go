// Package journal is the daemon's durable state, in one SQLite file or in a
// PostgreSQL database that several machines share: claims and who has which
// task, facts, what is owed to Notion, the mirror of the tasks database, and
// the answers to requests with an idempotency key.
//
// Every method that changes something is one transaction. Once it has returned
// nil, the change survives the end of the process and a power cut. If it returns
// an error, nothing of it is kept, unless the error says that this is not known.
// A Journal is safe for concurrent use.
package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/brake"
)

var _ claim.Ledger = (*Journal)(nil)

// Journal is an open journal.
type Journal struct {
	engine engine
	// writer has a single connection, so that writes queue here instead of
	// failing with SQLITE_BUSY.
	writer *writer
	// readers never wait for the writer: SQLite's file is in WAL mode.
	readers *pool
	bounds  atomic.Pointer[brake.Bounds]
	lost    Span
}

// Open opens the journal in the file at path. It creates the file (for this user
// only) and its directory if they are missing. The caller makes sure that no
// other process has the journal open.
//
// It recovers what the last process left half done. Claims that were only
// reserved end as not granted, for nothing was written; entries that were being
// sent are in doubt; requests without an answer are forgotten, unless a claim or
// a task was made for them. All other claims are left to the protocol's recovery.
func Open(ctx context.Context, path string) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := file(path).create(); err != nil {
		return nil, fmt.Errorf("making the journal: %w", Unmade(err))
	}
	return open(ctx, file(path))
}

// open opens the journal in a database.
func open(ctx context.Context, e engine) (_ *Journal, err error) {
	j := &Journal{engine: e}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	// First make sure that it is a journal of this program, before it is opened for writing.
	db, err := e.reads()
	if err != nil {
		return nil, err
	}
	j.readers = &pool{DB: db, store: e}
	if err := e.check(ctx, j.readers); err != nil {
		return nil, j.failed(err, "checking the journal")
	}
	made, err := made(ctx, e, j.readers)
	if err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	if db, err = e.writes(); err != nil {
		return nil, err
	}
	if j.writer, err = openWriter(ctx, db, e); err != nil {
		return nil, j.failed(errors.Join(err, db.Close()), "opening the journal")
	}
	if err := e.prepare(ctx, j, made); err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	if err := j.recover(ctx); err != nil {
		return nil, j.failed(err, "recovering the journal")
	}
	return j, nil
}

// Check reads through the file and returns an error if it is damaged.
func (j *Journal) Check(ctx context.Context) error {
	return j.failed(j.engine.check(ctx, j.readers), "checking the journal")
}

// recover cleans up what the last process left half done, see Open.
func (j *Journal) recover(ctx context.Context) error {
	return j.writeAlone(ctx, func(tx *tx) error {
		tx.lost = j.lost
		if err := renameHolds(ctx, tx); err != nil {
			return err
		}
		reserved, err := collect(ctx, tx, scanClaim, "SELECT body FROM claims WHERE "+unended+" AND state = 'reserved'")
		if err != nil {
			return err
		}
		for _, c := range reserved {
			c.State, c.Ending = claim.Ended, claim.EndNotGranted
			c.Detail = "the daemon stopped before anything was written to Notion"
			// This machine's clock stands in for Notion's, which is not known yet.
			c.Ended = time.Now().UTC()
			if c.Ended.Before(c.Reserved) {
				c.Ended = c.Reserved
			}
			if err := j.save(ctx, tx, claim.Change{Holds: []claim.Hold{c}}); err != nil {
				return err
			}
		}
		if err := recoverOwed(ctx, tx, j.lost); err != nil {
			return err
		}
		return recoverRequests(ctx, tx)
	})
}

// Lost returns from when to when accepted things may be lost, as of when the journal was opened.
func (j *Journal) Lost() Span { return j.lost }

// Path names the journal's place for people: its file, or its database.
func (j *Journal) Path() string { return j.engine.String() }

// Over returns a channel that is closed once nothing can be saved here any more, because
// another member may lead. Whoever wants to go on has to open the journal again. It never
// happens with an SQLite file.
func (j *Journal) Over() <-chan struct{} { return j.engine.over() }

// Close closes the journal. Calls under way end first; later ones fail.
func (j *Journal) Close() error {
	var errs []error
	if j.readers != nil {
		errs = append(errs, j.readers.Close())
	}
	if j.writer != nil { // last: the last connection to close empties the WAL
		errs = append(errs, j.writer.close())
	}
	return j.failed(errors.Join(errs...), "closing the journal")
}
