// Package journaltest makes new journals cheaply, for tests that need many.
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

	"dibs/internal/journal"
	"dibs/internal/pgtest"
)

// Open opens the journal that path stands for, and makes it if there is none: the file there,
// or, while tests run with journals in PostgreSQL, what has the name of the path there.
func Open(ctx context.Context, path string) (*journal.Journal, error) {
	if pgtest.URL() != "" {
		return seize(ctx, Postgres(path))
	}
	if err := Make(path); err != nil {
		return nil, err
	}
	return journal.Open(ctx, path)
}

// Postgres is where the journal that path stands for lies in PostgreSQL.
func Postgres(path string) journal.Postgres {
	sum := sha256.Sum256([]byte(path))
	return journal.Postgres{URL: pgtest.URL(), Schema: "dibs", Board: hex.EncodeToString(sum[:16])}
}

// seize opens a journal in PostgreSQL, as one that leads until another one does. Who had it
// is taken for dead: tests kill it.
func seize(ctx context.Context, p journal.Postgres) (*journal.Journal, error) {
	shared, err := journal.Dial(ctx, p)
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	db, err := sql.Open("pgx", p.URL)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	until := func(when string) error {
		_, err := db.ExecContext(ctx, "UPDATE "+p.Schema+"_"+p.Board+".leader SET until = $1::text::timestamptz", when)
		return err
	}
	for {
		if err := until("-infinity"); err != nil {
			return nil, err
		}
		epoch, err := shared.Lead(ctx, "test")
		if err != nil {
			return nil, err
		}
		if epoch == 0 { // a transaction of the dead is not over
			time.Sleep(time.Millisecond)
			continue
		}
		if err := until("infinity"); err != nil {
			return nil, err
		}
		return shared.Open(ctx, epoch)
	}
}

// Make puts a new journal at path, and makes its directory if need be. It is what
// [journal.Open] makes of no file; but the tables, which take longer than all else that Open
// does, are made once in a process. A file that is there is left alone.
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
