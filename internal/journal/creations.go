package journal

import (
	"context"
	"database/sql"
	"errors"

	"dibs/internal/creation"
	"dibs/internal/task"
)

var _ creation.Storage = (*Journal)(nil)

// Creation returns the task that is, or was, made for the request of that user and key.
func (j *Journal) Creation(ctx context.Context, uid int, key string) (c creation.Creation, ok bool, err error) {
	var at int64
	err = j.readers.QueryRowContext(ctx, `
		SELECT id, at, page FROM creations WHERE id = (SELECT made FROM requests WHERE uid = ? AND key = ?)`, uid, key).
		Scan(&c.ID, &at, &c.Page)
	if errors.Is(err, sql.ErrNoRows) {
		return creation.Creation{}, false, nil
	}
	c.At = moment(at)
	return c, err == nil, j.failed(err, "reading what was made for request %q", key)
}

// BeginCreation stores a creation that is about to be sent, perhaps again, for the request of that
// user and key; an empty key is none.
func (j *Journal) BeginCreation(ctx context.Context, c creation.Creation, uid int, key string) error {
	err := j.write(ctx, func(tx *tx) error {
		again, err := affect(ctx, tx, "UPDATE creations SET at = at WHERE id = ?", c.ID)
		if err != nil || again > 0 {
			return err
		}
		if _, err = tx.ExecContext(ctx, "INSERT INTO creations (id, at) VALUES (?, ?)", c.ID, millis(c.At)); err != nil || key == "" {
			return err
		}
		return changeRequest(ctx, tx, uid, key, "made = ?", c.ID)
	})
	return j.failed(err, "storing that a task is made for request %q", key)
}

// Created notes which page a creation has become; ok is false if the page is another's.
func (j *Journal) Created(ctx context.Context, id string, page task.ID) (ok bool, err error) {
	err = j.write(ctx, func(tx *tx) error {
		n, err := affect(ctx, tx, `
			UPDATE creations SET page = ?1 WHERE id = ?2
			   AND NOT EXISTS (SELECT 1 FROM creations AS other WHERE other.page = ?1 AND other.page <> '' AND other.id <> ?2)`, page, id)
		ok = n > 0
		return err
	})
	return ok, j.failed(err, "storing that task %s was made", page)
}

// DropCreation forgets a creation, and that the request of that user and key has made it.
func (j *Journal) DropCreation(ctx context.Context, id string, uid int, key string) error {
	err := j.write(ctx, func(tx *tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM creations WHERE id = ?", id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE requests SET made = NULL WHERE uid = ? AND key = ? AND made = ?", uid, key, id)
		return err
	})
	return j.failed(err, "forgetting creation %s", id)
}
