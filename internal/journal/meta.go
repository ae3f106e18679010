package journal

import (
	"context"
	"database/sql"
	"errors"
)

// MetaSources is the key of the data sources that are used: a JSON object of notion.Choice, by the
// id of the database.
const MetaSources = "data_sources"

// Meta returns the value that SetMeta stored under key; "" if there is none.
func (j *Journal) Meta(ctx context.Context, key string) (string, error) {
	value, err := readMeta(ctx, j.readers, key)
	return value, j.failed(err, "reading %q", key)
}

func readMeta(ctx context.Context, q querier, key string) (string, error) {
	value, err := scanString(q.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key))
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// SetMeta stores value under key.
func (j *Journal) SetMeta(ctx context.Context, key, value string) error {
	err := j.write(ctx, func(tx *tx) error { return setMeta(ctx, tx, key, value) })
	return j.failed(err, "storing %q", key)
}

func setMeta(ctx context.Context, tx *tx, key, value string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO meta (key, value) VALUES (?, ?)
		    ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}
