package journal

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What to do about the ways in which a journal's file fails.
const (
	adviceDamaged    = "move it and the files beside it that begin with its name away, or put a copy from a backup there, and start again"
	adviceUnwritable = "make the directory and the files in it writable for this user, or set another state_dir"
	adviceUnsafe     = "or set state_dir to a directory of this user's own"
	adviceLocked     = "another process has it open; stop that one first"
	adviceFull       = "make room on its disk"
	adviceDisk       = "look at the health and the mount of its disk"
)

// failed says what was being done when err happened; it returns nil for nil.
func (j *Journal) failed(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), j.explain(err))
}

// explain adds to an error of SQLite's the file and what to do about it.
func (j *Journal) explain(err error) error {
	failure, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	var advice string
	switch failure.Code() & 0xff { // the rest tells kinds of one code apart
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		advice = adviceDamaged
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY:
		advice = adviceUnwritable
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		advice = adviceLocked
	case sqlite3.SQLITE_FULL:
		advice = adviceFull
	case sqlite3.SQLITE_IOERR:
		advice = adviceDisk
	default:
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return fmt.Errorf("%s: %w: %s", j.path, err, advice)
}
