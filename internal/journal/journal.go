// Package journal is the daemon's durable local state, one SQLite file: claims
// and who has which task, events, the outbox of log entries owed to Notion, the
// mirror of the tasks database, and the answers given to requests that carry an
// idempotency key.
//
// A method that changes something is one transaction. Once it has returned nil
// its change survives the end of the process and a power cut; when it returns
// an error, nothing of it is kept. A Journal is safe for concurrent use.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/ownfile"

	_ "modernc.org/sqlite" // the database driver "sqlite"
)

var _ claim.Ledger = (*Journal)(nil)

// Journal is an open journal file.
type Journal struct {
	path string
	// writer has a single connection, so that operations that write queue up
	// here instead of meeting SQLITE_BUSY in the file.
	writer *writer
	// readers never wait for the writer: the file is in WAL mode.
	readers *pool
	shared  bool // see ShareInbox
}

const maxReaders = 4

// Open opens the journal in the file at path, and makes the file (for this user
// only) and its directory if need be. The caller sees to it that no other
// process has the journal open.
//
// Whatever the last process left half done is put right: claims that were only
// reserved end as not granted, for nothing was written; entries that were being
// sent are in doubt; requests in flight are forgotten, or interrupted if a claim
// made for them lives. All other claims are left to the protocol's recovery.
func Open(ctx context.Context, path string) (_ *Journal, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("making the journal: %w", Unmade(err))
	}
	j := &Journal{path: path}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	// What is no journal of this program's is not opened for writing.
	db, err := connect(path, maxReaders, "busy_timeout(5000)", "query_only(1)")
	if err != nil {
		return nil, err
	}
	j.readers = &pool{DB: db}
	if err := j.check(ctx); err != nil {
		return nil, j.failed(err, "checking the journal")
	}
	made, err := j.made(ctx)
	if err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	// FULL, because a commit in WAL mode is not synced at less, and a power cut
	// must not take back a grant that an agent was told of. fullfsync makes
	// macOS flush the drive's own cache too.
	// auto_vacuum has a say only before the first table is made.
	db, err = connect(path, 1, "busy_timeout(5000)", "foreign_keys(1)", "auto_vacuum(INCREMENTAL)",
		"synchronous(FULL)", "fullfsync(1)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAfter), fmt.Sprintf("journal_size_limit(%d)", maxIdleWAL))
	if err != nil {
		return nil, err
	}
	if j.writer, err = openWriter(ctx, db, j.explain); err != nil {
		return nil, j.failed(errors.Join(err, db.Close()), "opening the journal")
	}
	if err := j.useWAL(ctx); err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	if !made {
		if err := j.makeTables(ctx); err != nil {
			return nil, j.failed(err, "making the journal")
		}
	}
	if err := j.recover(ctx); err != nil {
		return nil, j.failed(err, "recovering the journal")
	}
	return j, nil
}

// create makes an empty file at path, and its directory, unless they exist, and
// sees to it that they are nobody else's. An existing file is not even opened: to
// close it again would drop the locks that this process holds on it through SQLite.
// That it is still the same when SQLite opens it by its name, the directory ensures.
func create(path string) error {
	if err := ownfile.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	for _, beside := range []string{path + "-wal", path + "-shm", path} {
		info, err := os.Lstat(beside)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() { // which SQLite refuses
			err = ownfile.Check(beside, info)
		}
		if err != nil || beside == path {
			return err
		}
	}
	f, err := ownfile.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func connect(path string, conns int, pragmas ...string) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// useWAL puts the file into WAL mode, which it keeps.
func (j *Journal) useWAL(ctx context.Context) error {
	var mode string
	err := j.outside(ctx, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%s: its file system cannot share memory between processes: set a state_dir on a local disk", j.path)
	}
	return nil
}

// Check reads through the file and returns an error if it is damaged.
func (j *Journal) Check(ctx context.Context) error {
	return j.failed(j.check(ctx), "checking the journal")
}

func (j *Journal) check(ctx context.Context) error {
	// One row is enough to know, and it may speak of several things, a line each.
	var found string
	if err := j.readers.DB.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%s is damaged (%s): %s", j.path, strings.Join(strings.Fields(found), " "), adviceDamaged)
	}
	return nil
}

// recover puts right what the last process left half done.
func (j *Journal) recover(ctx context.Context) error {
	return j.writeAlone(ctx, func(tx *tx) error {
		reserved, err := collect(ctx, tx, scanClaim, "SELECT body FROM claims WHERE "+unended+" AND state = ?", claim.Reserved)
		if err != nil {
			return err
		}
		for _, c := range reserved {
			c.State, c.Ending = claim.Ended, claim.EndNotGranted
			c.Detail = "the daemon stopped before anything was written to Notion"
			// This machine's clock stands in for Notion's, which nobody has
			// asked for the time yet.
			c.Ended = time.Now().UTC()
			if c.Ended.Before(c.Reserved) {
				c.Ended = c.Reserved
			}
			if err := save(ctx, tx, c); err != nil {
				return err
			}
		}
		if err := recoverOutbox(ctx, tx); err != nil {
			return err
		}
		return recoverRequests(ctx, tx)
	})
}

// Path is where the journal's file is.
func (j *Journal) Path() string { return j.path }

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
