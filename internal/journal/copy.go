package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyInfix stands between the journal's name and a migration's number in the
// name of a copy: the journal as it was before that migration.
const copyInfix = ".before-"

// keepCopy copies the file, so that there is a way back from the migrations that
// begin with that one. Only the copy of the last upgrade is kept.
func (j *Journal) keepCopy(ctx context.Context, migration int) error {
	copied := fmt.Sprintf("%s%s%04d", j.path, copyInfix, migration)
	if err := j.copyTo(ctx, copied); err != nil {
		return err
	}
	dir := filepath.Dir(j.path)
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := f.Name(); strings.HasPrefix(name, filepath.Base(j.path)+copyInfix) && name != filepath.Base(copied) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTo makes a copy of the journal that is there as a whole or not at all.
func (j *Journal) copyTo(ctx context.Context, path string) (err error) {
	unfinished := path + ".tmp"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// SQLite takes an empty file for a new one, and leaves its mode as it is.
	f, err := os.OpenFile(unfinished, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Unmade(err)
	}
	defer func() {
		if err != nil {
			os.Remove(unfinished) // or the next attempt does
		}
	}()
	err = j.outside(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "VACUUM INTO ?", unfinished)
		return err
	})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}
