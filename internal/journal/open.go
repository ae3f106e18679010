package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"dibs/internal/claim"
)

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
	if j.found, err = schemaOf(ctx, e, j.readers); err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	if db, err = e.writes(); err != nil {
		return nil, err
	}
	if j.writer, err = openWriter(ctx, db, e); err != nil {
		return nil, j.failed(errors.Join(err, db.Close()), "opening the journal")
	}
	if j.lost, err = e.prepare(ctx, j.writer, j.readers, j.found); err != nil {
		return nil, j.failed(err, "opening the journal")
	}
	if err := j.recover(ctx); err != nil {
		return nil, j.failed(err, "recovering the journal")
	}
	return j, nil
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

// Check reads through the file and returns an error if it is damaged.
func (j *Journal) Check(ctx context.Context) error {
	return j.failed(j.engine.check(ctx, j.readers), "checking the journal")
}

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

// FileName is the name of the journal's file in a state directory.
const FileName = "journal.db"

// Inspection is what Inspect found in a journal's file.
type Inspection struct {
	Owed  []Backlog    // to Notion
	Live  []claim.Hold // claims that have not ended
	Marks []claim.Mark // marks that have not ended
}

// Inspect reads the journal in the file at path. It changes nothing, and may run while a daemon
// has the file open. The error is fs.ErrNotExist if there is no file; any other says what is
// wrong with it and what to do.
func Inspect(ctx context.Context, path string) (Inspection, error) {
	j, err := openToRead(path)
	if err != nil {
		return Inspection{}, err
	}
	defer j.readers.Close()
	found, err := j.inspect(ctx)
	return found, j.failed(err, "looking at the journal")
}

// ReadMeta is Meta for the journal in the file at path. It reads the file as Inspect does.
func ReadMeta(ctx context.Context, path, key string) (string, error) {
	j, err := openToRead(path)
	if err != nil {
		return "", err
	}
	defer j.readers.Close()
	return j.Meta(ctx, key)
}

// openToRead opens a journal read-only. The error is as for Inspect.
func openToRead(path string) (*Journal, error) {
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fs.ErrNotExist
		}
		return nil, fmt.Errorf("looking at the journal: %w", err)
	}
	db, err := file(path).connect(0, url.Values{"mode": {"ro"}}, "busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	return &Journal{engine: file(path), readers: &pool{DB: db, store: file(path)}}, nil
}

func (j *Journal) inspect(ctx context.Context) (found Inspection, err error) {
	if err := j.engine.check(ctx, j.readers); err != nil {
		return found, err
	}
	if number, err := schemaOf(ctx, j.engine, j.readers); err != nil || number == 0 {
		return found, err
	}
	if found.Live, found.Marks, err = j.Live(ctx); err == nil {
		found.Owed, err = j.Backlog(ctx, found.Live)
	}
	return found, err
}
