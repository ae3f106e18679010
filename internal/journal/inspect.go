package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"dibs/internal/claim"
)

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
	db, err := file(path).connect(0, url.Values{"mode": {"ro"}}, "busy_timeout(5000)", "query_only(1)")
	if err != nil {
		return nil, err
	}
	return &Journal{engine: file(path), readers: &pool{DB: db, store: file(path)}}, nil
}

func (j *Journal) inspect(ctx context.Context) (found Inspection, err error) {
	if err := j.engine.check(ctx, j.readers); err != nil {
		return found, err
	}
	if made, err := made(ctx, j.engine, j.readers); err != nil || !made {
		return found, err
	}
	if found.Live, found.Marks, err = j.Live(ctx); err == nil {
		found.Owed, err = j.Backlog(ctx, found.Live)
	}
	return found, err
}
