package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
)

const (
	// checkpointAfter is how many pages are in the WAL before a commit copies them
	// into the file, for which everybody has to wait. Most of them were written
	// several times by then, and are copied once.
	checkpointAfter = 4000
	// maxIdleWAL is how many bytes of the WAL are kept for reuse, which is faster
	// than to make it grow again: those pages. A large sync makes it much larger
	// for a while.
	maxIdleWAL = 16 << 20
	// vacuumStep is how many free pages are given back in one transaction. Others
	// who write, claims above all, get their turn in between.
	vacuumStep = 256
)

// Compact gives the space of what was removed back to the file system.
func (j *Journal) Compact(ctx context.Context) error {
	return j.failed(j.compact(ctx), "compacting the journal")
}

func (j *Journal) compact(ctx context.Context) error {
	for freed := vacuumStep; freed > 0; {
		var err error
		if freed, err = j.vacuum(ctx, vacuumStep); err != nil {
			return err
		}
	}
	// A reader that is at work keeps some of the WAL in use. Claims are not to wait
	// for it: the next time will do.
	return j.outside(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)")
		_, restored := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = 5000")
		return cmp.Or(err, restored)
	})
}

// vacuum gives back up to n free pages, and returns how many it gave.
func (j *Journal) vacuum(ctx context.Context, n int) (freed int, err error) {
	err = j.outside(ctx, func(conn *sql.Conn) error {
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
