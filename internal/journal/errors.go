package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"dibs/internal/claim"
	"dibs/internal/ownfile"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What to do about the ways in which a journal's file fails.
const (
	adviceDamaged    = "move it and the files beside it that begin with its name away, or put a copy from a backup there, and start again"
	adviceSchema     = "use the version of dibs that made it, or move it and the files beside it that begin with its name away and start again (claims stay as Notion shows them; what is owed to Notion, messages and answers by key are lost)"
	adviceUnwritable = "make the directory and the files in it writable for this user, or set another state_dir"
	adviceUnsafe     = "or set state_dir to a directory of this user's own"
	adviceLocked     = "another process has it open; stop that one first"
	adviceFull       = "make room on its disk"
	adviceDisk       = "look at the health and the mount of its disk"
)

// retryIn is when it makes sense to ask again for what could not be stored: somebody has to
// do something first.
const retryIn = 5 * time.Second

// failed says what was being done when err happened; it returns nil for nil.
func (j *Journal) failed(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), j.explain(err))
}

// explain adds to an error of SQLite's the file and what to do about it. It is the one place
// that decides which errors are those of the file or its disk, and thus a
// *claim.JournalError. All others are faults of a statement, and so of ours.
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
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		advice = adviceLocked
	case sqlite3.SQLITE_FULL:
		advice = adviceFull
	case sqlite3.SQLITE_IOERR:
		advice = adviceDisk
		if failure.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // it is made as large as it has to be
			advice = adviceFull
		}
	default:
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return unusable(fmt.Errorf("%s: %w", j.path, err), advice)
}

func unusable(err error, advice string) *claim.JournalError {
	return &claim.JournalError{RetryAfter: retryIn, Err: fmt.Errorf("%w: %s", err, advice)}
}

// Unmade adds to an error of the file system what to do about it: that of the journal's file,
// or of one beside it, which could not be made or written. If the disk is full, it is a
// *claim.JournalError.
func Unmade(err error) error {
	if _, ok := errors.AsType[*ownfile.Unsafe](err); ok {
		return fmt.Errorf("%w: %s", err, adviceUnsafe)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return unusable(err, adviceFull)
	}
	return fmt.Errorf("%w: %s", err, adviceUnwritable)
}
