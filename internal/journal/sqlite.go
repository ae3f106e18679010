package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"dibs/internal/kit/safefile"

	"modernc.org/sqlite" // and the database driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What to do about the ways in which a journal's file fails.
const (
	adviceDamaged    = "move it and the files beside it that begin with its name away, or put a copy from a backup there, and start again"
	adviceForeign    = "move it and the files beside it that begin with its name away and start again, or set another state_dir"
	adviceUnwritable = "make the directory and the files in it writable for this user, or set another state_dir"
	adviceUnsafe     = "or set state_dir to a directory of this user's own"
	adviceLocked     = "another process has it open; stop that one first"
	adviceFull       = "make room on its disk"
	adviceDisk       = "look at the health and the mount of its disk"
)

const (
	// checkpointAfter is how many pages the WAL has before a commit copies them into
	// the file, for which everybody has to wait. By then most pages were written
	// several times, and are copied once.
	checkpointAfter = 4000
	// maxIdleWAL is how many bytes of the WAL are kept for reuse, which is faster
	// than growing it again: about checkpointAfter pages. A large sync makes it much
	// larger for a while.
	maxIdleWAL = 16 << 20
	// vacuumStep is how many free pages one transaction gives back. Other writers,
	// claims above all, get their turn in between.
	vacuumStep = 256
)

// file is an SQLite file, by its absolute path.
type file string

func (f file) String() string                { return string(f) }
func (file) rewrite(statement string) string { return statement }
func (file) compiles() bool                  { return true }
func (file) waiting(context.Context) func()  { return func() {} }
func (file) numbers() bool                   { return true } // RETURNING has SQLite copy each page that it changes
func (file) begin(tx *tx) error              { return tx.control("BEGIN IMMEDIATE") }
func (file) commit(tx *tx) error             { return tx.control("COMMIT") }
func (file) fate(u *unsure) error            { return u }
func (file) over() <-chan struct{}           { return nil }
func (file) away() error                     { return nil } // a file can always be read

func (file) foreign() string { return adviceForeign }

func (file) tables(ctx context.Context, readers *pool) (all, meta int, err error) {
	err = readers.DB.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE type = 'table' AND name = 'meta') FROM sqlite_schema").Scan(&all, &meta)
	return all, meta, err
}

func (f file) writes() (*sql.DB, error) {
	// FULL, because with less a commit in WAL mode is not synced, and a power cut
	// must not undo a grant that an agent knows of. fullfsync makes macOS flush the
	// drive's own cache, too.
	// auto_vacuum takes effect only before the first table is created.
	return f.connect(1, nil, "busy_timeout(5000)", "foreign_keys(1)", "auto_vacuum(INCREMENTAL)",
		"synchronous(FULL)", "fullfsync(1)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAfter), fmt.Sprintf("journal_size_limit(%d)", maxIdleWAL))
}

func (f file) reads() (*sql.DB, error) {
	return f.connect(maxReaders, nil, "busy_timeout(5000)", "query_only(1)")
}

func (f file) connect(conns int, how url.Values, pragmas ...string) (*sql.DB, error) {
	values := url.Values{"_pragma": pragmas}
	for name, set := range how {
		values[name] = set
	}
	dsn := url.URL{Scheme: "file", Path: string(f), RawQuery: values.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// create creates an empty file and its directory, unless they exist, and makes sure
// that they belong to this user. It does not open an existing file: closing it again
// would drop the locks that this process has on it through SQLite. Nobody else can
// replace the file before SQLite opens it by name, because the directory is this user's.
func (f file) create() error {
	path := string(f)
	if err := safefile.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	for _, beside := range []string{path + "-wal", path + "-shm", path} {
		info, err := os.Lstat(beside)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() { // which SQLite refuses
			err = safefile.Check(beside, info)
		}
		if err != nil || beside == path {
			return err
		}
	}
	made, err := safefile.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return made.Close()
}

// prepare puts the file into WAL mode, which is permanent, and creates its tables or carries them over.
// That is one transaction: a process that is killed in it starts anew at its next start, with a new
// copy.
func (f file) prepare(ctx context.Context, w *writer, _ *pool, schema int) (Span, error) {
	var mode string
	err := w.outside(ctx, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
	})
	if err != nil {
		return Span{}, err
	}
	if mode != "wal" {
		return Span{}, fmt.Errorf("%s: its file system cannot share memory between processes: set a state_dir on a local disk", f)
	}
	script := sqliteSchema
	if schema > 0 {
		script = ""
		for _, step := range steps[schema-1:] {
			script += step[0]
		}
	}
	if script == "" {
		return Span{}, nil
	}
	if schema > 0 {
		if err := w.outside(ctx, func(conn *sql.Conn) error { return f.putAside(ctx, conn) }); err != nil {
			return Span{}, fmt.Errorf("copying the journal before it is carried over to schema %d: %w", Schema, err)
		}
	}
	return Span{}, w.do(ctx, alone, func(tx *tx) error { return makeTables(ctx, tx, script) })
}

// former is where a copy of the journal lies that was carried over to this program's schema.
func (f file) former() string { return fmt.Sprintf("%s.before-%d", f, Schema) }

// putAside writes a copy of the journal to former.
func (f file) putAside(ctx context.Context, db executor) error {
	unfinished := f.former() + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Unmade(err)
	}
	copied, err := os.OpenFile(unfinished, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Unmade(err)
	}
	if err := snapshot(ctx, db, copied); err != nil {
		return err
	}
	if err := os.Rename(unfinished, f.former()); err != nil {
		return Unmade(err)
	}
	return syncDirectory(filepath.Dir(string(f)))
}

// executor runs statements: a database, or one connection of it.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// snapshot writes the SQLite database that db has open, as of one moment, into an empty file, and closes
// the file. It is on the disk then.
func snapshot(ctx context.Context, db executor, to *os.File) error {
	_, err := db.ExecContext(ctx, "VACUUM INTO ?", to.Name())
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// syncDirectory makes a new name in a directory last.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	// Some file systems cannot sync directories.
	_ = d.Sync()
	return d.Close()
}

// check reads the whole file.
func (f file) check(ctx context.Context, readers *pool) error {
	// The first finding is enough; it may have several lines.
	var found string
	if err := readers.DB.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%s is damaged (%s): %s", f, strings.Join(strings.Fields(found), " "), adviceDamaged)
	}
	return nil
}

func (f file) compact(ctx context.Context, w *writer) error {
	for freed := vacuumStep; freed > 0; {
		var err error
		if freed, err = f.vacuum(ctx, w, vacuumStep); err != nil {
			return err
		}
	}
	// A busy reader keeps part of the WAL in use. Claims must not wait for it: the rest
	// is done next time.
	return w.outside(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)")
		_, restored := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = 5000")
		return cmp.Or(err, restored)
	})
}

// vacuum gives up to n free pages back to the file system, and returns how many.
func (file) vacuum(ctx context.Context, w *writer, n int) (freed int, err error) {
	err = w.outside(ctx, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() { // a row for each page
			freed++
		}
		return rows.Err()
	})
	return freed, err
}

func (f file) explain(err error) error {
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	var advice string
	switch failure.Code() & 0xff { // the primary code, without the extended one
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		advice = adviceDamaged
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY:
		advice = adviceUnwritable
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		advice = adviceLocked
	case sqlite3.SQLITE_FULL:
		advice = adviceFull
	case sqlite3.SQLITE_IOERR:
		advice = adviceDisk
		if failure.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // there was no room to grow the file
			advice = adviceFull
		}
	default:
		return fmt.Errorf("%s: %w", f, err)
	}
	return unusable(fmt.Errorf("%s: %w", f, err), advice)
}

// fault reports whether an error is SQLite's, which may have rolled back the transaction.
func (file) fault(err error) bool {
	_, is := errors.AsType[*sqlite.Error](err)
	return is
}

// Unmade adds an advice to a file system's error about the journal's file, or one beside it,
// that could not be created or written. If the disk is full, it returns a *claim.JournalError.
func Unmade(err error) error {
	if _, ok := errors.AsType[*safefile.Unsafe](err); ok {
		return fmt.Errorf("%w: %s", err, adviceUnsafe)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return unusable(err, adviceFull)
	}
	return fmt.Errorf("%w: %s", err, adviceUnwritable)
}
