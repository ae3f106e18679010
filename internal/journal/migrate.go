package journal

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

// Migrations are numbered from 0001 without a gap; the number of the last one
// applied is the file's user_version. One that has been released never changes.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate applies the migrations that the file lacks, each in its transaction.
func (j *Journal) migrate(ctx context.Context) error {
	names, err := fs.Glob(migrations, "migrations/*.sql") // in the order of their numbers
	if err != nil {
		return err
	}
	var version int
	err = j.outside(ctx, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	})
	if err != nil {
		return err
	}
	if version > len(names) {
		return fmt.Errorf("%s was written by a newer dibs (schema %d, this one knows %d): install that version again, or set another state_dir",
			j.path, version, len(names))
	}
	if version == len(names) {
		return nil
	}
	if version > 0 {
		if err := j.keepCopy(ctx, version+1); err != nil {
			return fmt.Errorf("keeping a copy from before the upgrade: %w", err)
		}
	}
	for i, name := range names[version:] {
		script, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		err = j.writeAlone(ctx, func(tx *tx) error {
			if err := tx.script(string(script)); err != nil {
				return err
			}
			return tx.script(fmt.Sprintf("PRAGMA user_version = %d", version+i+1))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
