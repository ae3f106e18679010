// Package journaltest makes new journals cheaply, for tests that need many. The tables of a file
// are made once, as journal.Open makes them.
package journaltest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/testkit/pgtest"
)

// Open opens the journal that path stands for, and creates it if there is none: a file, or, while
// tests run with journals in PostgreSQL, a schema named after the path.
func Open(ctx context.Context, path string) (*journal.Journal, error) {
	if pgtest.URL() != "" {
		return seize(ctx, Postgres(path))
	}
	if err := Make(path); err != nil {
		return nil, err
	}
	return journal.Open(ctx, path)
}

// Facts returns the facts in a file that nobody has open. The error also says that the file is not sound.
func Facts(ctx context.Context, path string) ([]claim.Fact, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	var sound string
	err = db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&sound)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	if sound != "ok" {
		return nil, errors.New(path + ": " + sound)
	}
	j, err := journal.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	facts, err := j.Facts(ctx, journal.FactFilter{})
	return facts, errors.Join(err, j.Close())
}

// Postgres returns the place in PostgreSQL of the journal that path stands for.
func Postgres(path string) journal.Postgres {
	sum := sha256.Sum256([]byte(path))
	return journal.Postgres{URL: pgtest.URL(), Schema: "dibs", Board: hex.EncodeToString(sum[:16])}
}

// seize opens a journal in PostgreSQL, as a leader whose term lasts until the next seize. The
// former leader counts as dead: tests kill it.
func seize(ctx context.Context, p journal.Postgres) (*journal.Journal, error) {
	db, err := sql.Open("pgx", p.URL)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := reuse(ctx, db, p); err != nil {
		return nil, err
	}
	shared, err := journal.Dial(ctx, p)
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	until := func(when string) error {
		_, err := db.ExecContext(ctx, "UPDATE "+space(p)+".leadership SET until = $1::text::timestamptz", when)
		return err
	}
	for {
		if err := until("-infinity"); err != nil {
			return nil, err
		}
		term, err := shared.Lead(ctx, "test")
		if err != nil {
			return nil, err
		}
		if term.Epoch == 0 { // a transaction of the former leader is still open
			time.Sleep(time.Millisecond)
			continue
		}
		if err := until("infinity"); err != nil {
			return nil, err
		}
		return shared.Open(ctx, term)
	}
}

// Make creates a new journal at path, and its directory if need be. The file is the same as one
// that [journal.Open] creates, but the tables, which take most of the time, are created once in a
// process. It leaves an existing file alone.
func Make(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := template()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// template is the content of a new journal.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, journal.FileName)
	j, err := journal.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := j.Close(); err != nil { // which leaves all in the one file
		return nil, err
	}
	return os.ReadFile(path)
})
